/**
 * `npm test`: the checks and tests of the whole project, on a machine that is prepared for them first. Ends
 * with one line of counts; the exit code is not 0 when anything failed, or was skipped where nothing may be.
 *
 * --all           also the slow files that it is another commit's turn to run (plan.ts)
 * --long          only the tests that count, with their long counts
 * --keep-times    writes how long each file took to test/times.json, for the order and turns of the next runs; with --all
 * FILE …          only these, without the checks
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { commitTurn } from './simulation/commit-seed.ts'
import { checkJob } from './support/check-job.ts'
import { idleShare, readCpuTimes } from './support/cpu-times.ts'
import { type Job, type JobResult, repeatFailed, runJobs, type Write } from './support/jobs.ts'
import { isLong, type PlannedFile, planRun, type Times, type WholeTest } from './support/plan.ts'
import { prepareTests } from './support/prepare-tests.ts'
import { fileJob, groupJob } from './support/run-files.ts'
import { SharedWarren } from './support/shared-warren.ts'
import { judge, type Phase, summarize } from './support/summary.ts'
import { isolations, maxSeats } from './support/warren.ts'

const repoFolder = resolve(import.meta.dirname, '..')
const timesFile = join(import.meta.dirname, 'times.json')
const everythingRequired = Boolean(process.env.CI || process.env.WARREN_TEST_REQUIRE)
const write: Write = (text) => void process.stdout.write(text)
const { values: options, positionals: chosen } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    long: { type: 'boolean', default: false },
    'keep-times': { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
if (options['keep-times'] && !options.all) {
  console.error('--keep-times needs --all: the times of files that do not run would be lost.')
  process.exit(2)
}
if (options.long) process.env.WARREN_TEST_LONG = '1'
// Every test file and every Warren is a process that would compile the same modules again.
process.env.NODE_COMPILE_CACHE ??= join(repoFolder, '.cache/compiled')

const phases: Phase[] = []

async function phase<Result>(title: string, work: () => Promise<Result>): Promise<Result> {
  write(`\n# ${title}\n`)
  const [started, before] = [Date.now(), readCpuTimes()]
  const result = await work()
  phases.push({ title, ms: Date.now() - started, idle: idleShare(before, readCpuTimes()) })
  return result
}

const optionsOf = ({ name, path, lock }: PlannedFile) => ({
  name,
  lock,
  path: join(repoFolder, path),
  // A single one of the long tests may count for hours.
  ...(options.long && { silentMs: 6 * 3_600_000 }),
})

const postponedNote = (files: PlannedFile[]) =>
  `\nNot this commit's turn, \`npm run test:all\` runs them too:\n${files.map(({ name }) => `  ${name}\n`).join('')}`

/** More at a time than there are cores, since each waits most of its time. The shared servers have the seat after the last. */
async function runWhole(files: WholeTest[]): Promise<JobResult[]> {
  const concurrency = Math.min(2 * availableParallelism(), maxSeats - 1)
  const shared = new Map(isolations.map((isolation) => [isolation, new SharedWarren(isolation, concurrency)]))
  const jobs = files.map((file) => {
    const environment = async (seat: number) => ({
      WARREN_TEST_ISOLATION: file.isolation,
      WARREN_TEST_SEAT: String(seat),
      ...(file.joins && (await shared.get(file.isolation)!.environment())),
    })
    return fileJob({ ...optionsOf(file), environment })
  })
  const results = await runJobs(jobs, { concurrency, write })
  await Promise.all([...shared.values()].map((server) => server.close()))
  return results
}

/** `checked`: what the checks find that are under way. */
async function runPlan(checked: Promise<JobResult[]>): Promise<JobResult[]> {
  const paths = globSync('{src,test}/**/*.test.ts', { cwd: repoFolder }).sort()
  const all = paths.filter((path) => !path.startsWith('test/bench/') && (options.long || !isLong(path)))
  const wanted = chosen.map((path) => relative(repoFolder, resolve(path)))
  const files = (chosen.length > 0 ? wanted : all).map((path) => ({
    path,
    source: readFileSync(join(repoFolder, path), 'utf8'),
  }))
  // More than there are cores: some wait for their timers.
  const concurrency = 2 * availableParallelism()
  const times = JSON.parse(readFileSync(timesFile, 'utf8')) as Times
  // More of them than run at once, so that the last ones end at about the same time.
  const unitGroups = 2 * concurrency
  const turn = options.all || options.long || chosen.length > 0 ? undefined : commitTurn()
  const plan = planRun({ files, isolations, times, unitGroups, long: options.long, turn })
  if (plan.postponed.length > 0) write(postponedNote(plan.postponed))
  const units = plan.units.map((group, at) => {
    const [first, ...more] = group.map(optionsOf)
    return more.length === 0 ? fileJob(first!) : groupJob(`Unit tests, part ${at + 1}`, [first!, ...more])
  })
  const whole = plan.whole.length > 0 ? phase('Real sandboxes', () => runWhole(plan.whole)) : undefined
  // Beside real sandboxes one at a time: it takes the CPU time that those leave while they wait.
  const width = whole
    ? { concurrency: 1, more: { after: whole, concurrency: concurrency - 1 } }
    : { concurrency }
  const runUnits = async () => [
    ...(await checked),
    ...(await runJobs(units, { ...width, write, live: false })),
  ]
  const found = await Promise.all([
    units.length > 0 ? phase('Checks and unit tests', runUnits) : [],
    whole ?? [],
  ])
  return found.flat()
}

/** In one thread: several would each find out the same types, which takes half as much CPU time again. */
const typeOptions = ['--noEmit', '--singleThreaded']
const checks = (): Job[] => [
  checkJob('Types', 'tsc', typeOptions),
  checkJob('Types of the dashboard', 'tsc', [...typeOptions, '-p', 'src/dashboard']),
  checkJob('Format and lint', 'biome', ['check', '.']),
]

function keepTimes(found: JobResult[]): void {
  const entries = found.map(({ job, ms }) => [job.name, Math.ceil(ms / 100) / 10] as const)
  const sorted = Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(timesFile, `${JSON.stringify(sorted, null, 2)}\n`)
}

// Beside the set-up, which waits for the network most of its time.
const checked =
  options.long || chosen.length > 0
    ? Promise.resolve([])
    : runJobs(checks(), { concurrency: 1, write, live: false })
await phase('Set-up', prepareTests)
const results = await phase('All checks and tests', () => runPlan(checked))
const outcome = results.some(({ failed }) => failed > 0)
  ? await phase('Once more what failed', () => repeatFailed(results, write))
  : { results, flaky: [] }
if (options['keep-times']) keepTimes(outcome.results)
const verdict = judge(outcome, everythingRequired)
write(summarize(phases, outcome))
for (const reason of verdict.reasons) write(`\n${reason}\n`)
write(`\n${verdict.lastLine}\n`)
process.exit(verdict.good ? 0 : 1)
