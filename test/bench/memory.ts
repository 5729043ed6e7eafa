/** What an idle server and an idle sandbox hold in memory. */
import { readFileSync } from 'node:fs'
import { Sandbox } from 'e2b'
import { dataPaths, type ServerFile } from '../../src/app/data-folder.ts'
import { delay } from '../../src/lib/clock.ts'
import type { Warren } from '../support/warren.ts'
import { warrenLife, warrenName } from './contenders/warren.ts'
import type { Ground } from './ground.ts'
import { type Row, rowName, takeTurns } from './measure.ts'
import { argumentsOf, privateMB, processesOf, residentMB } from './processes.ts'
import { medianOf, type Report } from './report.ts'

const idleMs = 5000
const sandboxesAtOnce = 3

export async function memory(ground: Ground, { rounds }: { rounds: number }): Promise<Report> {
  const rows: Row[] = []
  for (const isolation of ground.isolations) {
    rows.push(...(await memoryOf(await ground.warren(isolation), rounds, ground.signal)))
  }
  const worst = (step: string) =>
    Math.max(
      ...ground.isolations.map((isolation) => medianOf({ rows }, rowName(`warren ${isolation}`, step))),
    )
  return {
    title: 'Memory at rest',
    rows,
    targets: [
      { promise: 'idle server, resident', value: worst('server, fresh'), atMost: 150, unit: ' MB' },
      { promise: 'idle agent, private', value: worst('agent, private'), atMost: 12, unit: ' MB' },
    ],
    notes: ['Under gVisor the agent lives inside the sentry: its own figure is what its kernel tells.'],
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
  await takeTurns([warrenLife(warren)], { rounds: lives, signal, settleMs: 0 })
  await delay(idleMs, signal)
  return [
    row('server, fresh', [fresh]),
    row(`server, after ${lives} sandboxes`, [residentMB(pid)]),
    row('agent, private', agents),
    row('all processes of a sandbox, private', sandboxes),
  ]
}

async function memoryOfSandboxes(warren: Warren, signal: AbortSignal): Promise<[number[], number[]]> {
  const boxes: Sandbox[] = []
  try {
    for (let index = 0; index < sandboxesAtOnce; index++) {
      boxes.push(await Sandbox.create('base', warren.client))
    }
    await delay(idleMs, signal)
    const whole = boxes.map((box) => processesOf(box.sandboxId).reduce((sum, pid) => sum + privateMB(pid), 0))
    const agents = await Promise.all(
      boxes.map((box) => (warren.isolation === 'gvisor' ? agentInsideMB(box) : agentMB(box))),
    )
    return [agents, whole]
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
}

const isAgent = (pid: number): boolean => {
  const [program, ...words] = argumentsOf(pid)
  return !program?.endsWith('/init') && words.some((word) => word.endsWith('/agent.cjs'))
}

function agentMB(box: Sandbox): number {
  const pid = processesOf(box.sandboxId).find(isAgent)
  if (pid === undefined) throw new Error(`sandbox ${box.sandboxId} has no agent process`)
  return privateMB(pid)
}

/** gVisor's own books, in the absence of a process on the host that is the agent's. */
async function agentInsideMB(box: Sandbox): Promise<number> {
  const read = `awk '/^Private_/ { kB += $2 } END { print kB / 1024 }' /proc/$(pgrep -o -f ^/.warren/lib/.*agent.cjs)/smaps`
  const { stdout } = await box.commands.run(read, { user: 'root' })
  return Number(stdout)
}
