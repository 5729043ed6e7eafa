/** What agents do: clones, builds, tests, databases, a browser. In both isolations and in Docker, on the same files. */
import { CommandExitError, Sandbox } from 'e2b'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenName } from '../contenders/warren.ts'
import { makeWorkRoot, workProgram } from '../contenders/work-root.ts'
import { type Contender, type Row, rowName, takeTurns } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

/** The jobs of work.py, and how much longer than a container gVisor may take for them. */
export const workJobs: Record<string, number | undefined> = {
  'git clone, 50 MB': undefined,
  'git add and commit': undefined,
  '10,000 small files': undefined,
  'npm ci': 2,
  'vite build': 2,
  'pip install pandas': 2,
  'pytest, 1,000 tests': 2,
  'go build': 2,
  'JVM build and tests': 2,
  'PostgreSQL, initdb and start': undefined,
  'PostgreSQL, pgbench': undefined,
  'Redis, redis-benchmark': undefined,
  SQLite: undefined,
  ffmpeg: 1.2,
  'Chromium, Playwright': undefined,
  'Jupyter notebook': undefined,
}
const maxRounds = 3
const maxErrorText = 500

/** Where jobs run: gives what the program printed. */
type Workplace = { name: string; run: (job: string) => Promise<string>; close: () => Promise<unknown> }

export async function work(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const root = await makeWorkRoot(machine.say)
  const engine = await machine.dockerOn(root)
  const workplaces: Workplace[] = []
  try {
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation, 'work')
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      const run = (job: string) => runInside(sandbox, `python3 work.py '${job}'`)
      workplaces.push({ name: warrenName(warren), run, close: () => sandbox.kill() })
      await sandbox.files.write('work.py', workProgram)
    }
    const container = await engine?.startIdle()
    if (container) {
      const run = (job: string) => container.exec(['python3', '-c', workProgram, job])
      workplaces.push({ name: 'docker', run, close: container.close })
    }
    const rows: Row[] = []
    for (const job of Object.keys(workJobs)) {
      machine.say(`  ${job}`)
      rows.push(...(await takeJob(workplaces, job, Math.min(rounds, maxRounds), machine.signal)))
    }
    return {
      title: 'What agents do',
      rows,
      ...(engine && { peers: [`Docker ${engine.version}`] }),
      references: ['docker', 'warren container'].map((contender) => ({ label: contender, contender })),
      targets: targets(rows),
    }
  } finally {
    await Promise.all(workplaces.map(({ close }) => close()))
  }
}

async function runInside(sandbox: Sandbox, command: string): Promise<string> {
  try {
    return (await sandbox.commands.run(command, { timeoutMs: 0 })).stdout
  } catch (error) {
    throw error instanceof CommandExitError ? new Error(error.stderr.slice(-maxErrorText)) : error
  }
}

async function takeJob(
  workplaces: Workplace[],
  job: string,
  rounds: number,
  signal: AbortSignal,
): Promise<Row[]> {
  const contenders = workplaces.map(
    ({ name, run }): Contender => ({
      name,
      sample: async () => JSON.parse(await run(job)) as Record<string, number>,
    }),
  )
  // The first try finds cold caches; the median of three leaves it out.
  const rows = await takeTurns(contenders, { rounds, signal, warmUps: 0 })
  return workplaces.map(({ name }) => {
    const found = rows.filter((row) => row.name.startsWith(`${name} · `))
    const [samples, failures] = [found.flatMap((row) => row.samples), found.flatMap((row) => row.failures)]
    return { name: rowName(name, job), unit: 'ms', samples, failures }
  })
}

function targets(rows: Row[]): Target[] {
  const middle = (contender: string, job: string) => medianOf({ rows }, rowName(contender, job))
  return Object.entries(workJobs).flatMap(([job, atMost]) =>
    atMost === undefined
      ? []
      : [
          {
            promise: `gVisor, ${job} against a container`,
            value: middle('warren gvisor', job) / middle('warren container', job),
            atMost,
            unit: ' ×',
          },
        ],
  )
}
