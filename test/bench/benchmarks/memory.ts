/** What an idle server and an idle sandbox hold in memory. */
import { readFileSync } from 'node:fs'
import { Sandbox } from 'e2b'
import { dataPaths, type ServerFile } from '../../../src/app/data-folder.ts'
import { delay } from '../../../src/lib/clock.ts'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenLife, warrenName } from '../contenders/warren.ts'
import { type Row, rowName, takeTurns } from '../measure.ts'
import { argumentsOf, chargedMB, privateMB, processesOf, residentMB } from '../processes.ts'
import { medianOf, type Report } from '../report.ts'

const idleMs = 5000
const sandboxesAtOnce = 3

export async function memory(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const rows: Row[] = []
  for (const isolation of machine.isolations) {
    rows.push(...(await memoryOf(await machine.warren(isolation), rounds, machine.signal)))
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
    const agents = boxes.map(agentMB)
    return [agents, whole]
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
}

/**
 * The largest process but for the runtime's own: the sandbox is idle, so it is the agent. Under gVisor it is
 * the host's process that carries the agent's memory.
 */
function agentMB(box: Sandbox): number {
  const guests = processesOf(box.sandboxId).filter((pid) => !argumentsOf(pid)[0]?.startsWith('runsc-'))
  return Math.max(...guests.map(privateMB))
}
