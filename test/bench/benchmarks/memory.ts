/** What an idle server and an idle sandbox hold in memory. */
import { readFileSync } from 'node:fs'
import { Sandbox } from 'e2b'
import { dataPaths, type ServerFile } from '../../../src/app/data/data-folder.ts'
import { delay } from '../../../src/lib/clock.ts'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenLife, warrenName } from '../contenders/warren.ts'
import { type Row, rowName, takeTurns } from '../measure.ts'
import { agentOf, availableMB, chargedMB, privateMB, processesOf, residentMB } from '../processes.ts'
import { medianOf, type Report } from '../report.ts'

/** An agent gives back memory once it has idled for six seconds. */
const idleMs = 8000
const sandboxesAtOnce = 3
/** So many are alive at once: as many as a team may have. */
const alive = 100

export async function memory(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const rows: Row[] = []
  for (const isolation of machine.isolations) {
    rows.push(...(await memoryOf(await machine.warren(isolation), rounds, machine.signal)))
    // Without a warm pool, whose sandboxes would come and go meanwhile.
    const cold = await machine.warren(isolation, 'cold')
    rows.push(...(await memoryOfMany(cold, alive, machine)))
  }
  const worst = (step: string) =>
    Math.max(
      ...machine.isolations.map((isolation) => medianOf({ rows }, rowName(`warren ${isolation}`, step))),
    )
  return {
    title: 'Memory at rest',
    rows,
    targets: [
      { promise: 'idle server, resident', value: worst('server, fresh'), atMost: 150, unit: ' MB' },
      { promise: 'idle agent, private', value: worst('agent, private'), atMost: 12, unit: ' MB' },
    ],
  }
}

async function memoryOf(warren: Warren, lives: number, signal: AbortSignal): Promise<Row[]> {
  const file = readFileSync(dataPaths(warren.dataFolder).server, 'utf8')
  const { pid } = JSON.parse(file) as ServerFile
  const row = (step: string, samples: number[]): Row => ({
    name: rowName(warrenName(warren), step),
    unit: 'MB',
    samples,
    failures: [],
  })
  await delay(idleMs, signal)
  const fresh = residentMB(pid)
  const [agents, sandboxes] = await memoryOfSandboxes(warren, signal)
  await takeTurns([warrenLife(warren)], { rounds: lives, signal, pauseMs: 0 })
  await delay(idleMs, signal)
  return [
    row('server, fresh', [fresh]),
    row(`server, after ${lives} sandboxes`, [residentMB(pid)]),
    row('agent, private', agents),
    row('sandbox, charged to its cgroup', sandboxes),
  ]
}

async function memoryOfSandboxes(warren: Warren, signal: AbortSignal): Promise<[number[], number[]]> {
  const boxes: Sandbox[] = []
  try {
    for (let index = 0; index < sandboxesAtOnce; index++) {
      boxes.push(await Sandbox.create('base', warren.client))
    }
    await delay(idleMs, signal)
    const whole = await Promise.all(boxes.map((box) => chargedMB(box.sandboxId)))
    const agents = boxes.map(({ sandboxId }) => privateMB(agentOf(sandboxId)))
    return [agents, whole]
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
}

/** What each takes for itself, by its processes, and by what the machine has less: kernel memory is in that too. */
async function memoryOfMany(warren: Warren, count: number, { signal, say }: BenchMachine): Promise<Row[]> {
  const boxes: Sandbox[] = []
  try {
    boxes.push(await Sandbox.create('base', warren.client))
    await delay(idleMs, signal)
    const before = availableMB()
    while (boxes.length < count) {
      signal.throwIfAborted()
      boxes.push(await Sandbox.create('base', { ...warren.client, timeoutMs: 600_000 }))
      if (boxes.length % 20 === 0) say(`  ${boxes.length} sandboxes alive, ${warrenName(warren)}`)
    }
    await delay(idleMs, signal)
    const perSandbox = (before - availableMB()) / (count - 1)
    const own = boxes.map(({ sandboxId }) => sum(processesOf(sandboxId).map(privateMB)))
    const row = (step: string, samples: number[]): Row => ({
      name: rowName(warrenName(warren), `${count} alive, ${step}`),
      unit: 'MB',
      samples,
      failures: [],
    })
    return [row('private, all processes of one', own), row('machine, for each', [perSandbox])]
  } finally {
    for (const box of boxes) await box.kill()
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
