/** What users feel inside a sandbox: system calls, files, processes and programs, beside the same on the machine itself. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import type { BenchMachine } from '../bench-machine.ts'
import { runOnHost } from '../contenders/host.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, stepOf, takeTurns } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const program = readFileSync(join(import.meta.dirname, '../contenders/jobs.py'), 'utf8')
const words = ['python3', '-c', program]
const host = 'host'
const maxRounds = 5

export async function jobs(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const boxes: Sandbox[] = []
  const rootFolder = await machine.rootFolder()
  const contenders: Contender[] = [contender(host, () => runOnHost(rootFolder, [...words, '1']))]
  try {
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation)
      const box = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      boxes.push(box)
      await box.files.write('jobs.py', program)
      const run = () => box.commands.run('python3 jobs.py 1', { timeoutMs: 0 })
      contenders.push(contender(warrenName(warren), async () => (await run()).stdout))
    }
    const max = Math.min(rounds, maxRounds)
    const onRound = (done: number) => machine.say(`  round ${done} of ${max}`)
    const rows = await takeTurns(contenders, { rounds: max, signal: machine.signal, onRound })
    return {
      title: 'Work inside a sandbox',
      rows: byJob(rows),
      references: [{ label: host, contender: host }],
      targets: targets(rows),
    }
  } finally {
    await Promise.all(boxes.map((box) => box.kill()))
  }
}

function contender(name: string, run: () => Promise<string>): Contender {
  return { name, sample: async () => JSON.parse(await run()) as Record<string, number> }
}

/** By job: each contender's figure stands beside the machine's own. */
function byJob(rows: readonly Row[]): Row[] {
  return Object.values(Object.groupBy(rows, ({ name }) => stepOf(name))).flatMap((same) => same!)
}

/** Times of the machine's own on 2026-11-16, with gVisor's build of 2026-05-27 on ptrace. */
const before = {
  '200,000 × getppid': 83,
  '100,000 × stat': 18,
  '200 × fork and exec': 18,
  'find /usr': 17,
}

function targets(rows: Row[]): Target[] {
  const middle = (contender: string, job: string) => medianOf({ rows }, rowName(contender, job))
  return Object.entries(before).map(([job, ratio]) => ({
    promise: `gVisor, ${job} against the host`,
    value: middle('warren gvisor', job) / middle(host, job),
    atMost: 0.3 * ratio,
    unit: ' ×',
  }))
}
