/**
 * `npm test`: the checks and tests of the whole project, on a machine that is prepared for them first. Ends
 * with one line of counts; the exit code is not 0 when anything failed, or was skipped where nothing may be.
 *
 * --long          only the tests that count, with their long counts
 * --keep-times    writes how long each file took to test/times.json, for the order of the next runs
 * FILE …          only these, one after the other, without the checks
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { checkJob } from './support/check-job.ts'
import { type Job, type JobResult, repeatFailed, runJobs, type Write } from './support/jobs.ts'
import { LaneServer } from './support/lane-server.ts'
import { type Lane, type PlannedFile, planRun, type Times } from './support/plan.ts'
import { prepareTests } from './support/prepare-tests.ts'
import { fileJob, groupJob } from './support/run-files.ts'
import { judge, type Phase, summarize } from './support/summary.ts'
import { type Isolation, isolations } from './support/warren.ts'

const repoFolder = resolve(import.meta.dirname, '..')
const timesFile = join(import.meta.dirname, 'times.json')
const everythingRequired = Boolean(process.env.CI || process.env.WARREN_TEST_REQUIRE)
const write: Write = (text) => void process.stdout.write(text)
const { values: options, positionals: chosen } = parseArgs({
  options: { long: { type: 'boolean', default: false }, 'keep-times': { type: 'boolean', default: false } },
  allowPositionals: true,
})
const withinMs = options.long ? 6 * 3_600_000 : 10 * 60_000
if (options.long) process.env.WARREN_TEST_LONG = '1'

const results: JobResult[] = []
const phases: Phase[] = []

async function phase(title: string, work: () => Promise<JobResult[]>): Promise<void> {
  write(`\n# ${title}\n`)
  const started = Date.now()
  const entry = { title, ms: 0 }
  phases.push(entry)
  results.push(...(await work()))
  entry.ms = Date.now() - started
}

const optionsOf = ({ name, path, lock }: PlannedFile) => ({
  name,
  lock,
  withinMs,
  path: join(repoFolder, path),
})

/** Two files at a time on the lane's server, since each waits a lot; then one at a time with Warrens of their own. */
async function runLane(isolation: Isolation, lane: Lane, locks: Set<string>): Promise<JobResult[]> {
  const started = Date.now()
  const server = new LaneServer(isolation)
  const environment = () => server.environment()
  const jobs = (files: PlannedFile[]) => files.map((file) => fileJob({ ...optionsOf(file), environment }))
  const joining = await runJobs(jobs(lane.joining), { concurrency: 2, write, locks })
  await server.close()
  const sharedMs = Date.now() - started
  const starting = await runJobs(jobs(lane.starting), { concurrency: 1, write, locks, live: false })
  phases.push({ title: `  of these, on the shared server of ${isolation}`, ms: sharedMs })
  phases.push({
    title: `  of these, on servers of their own, ${isolation}`,
    ms: Date.now() - started - sharedMs,
  })
  return [...joining, ...starting]
}

async function runPlan(): Promise<void> {
  const paths = globSync('{src,test}/**/*.test.ts', { cwd: repoFolder }).sort()
  const files = paths
    .filter((path) => !path.startsWith('test/bench/'))
    .map((path) => ({ path, source: readFileSync(join(repoFolder, path), 'utf8') }))
  const cores = availableParallelism()
  const times = JSON.parse(readFileSync(timesFile, 'utf8')) as Times
  const plan = planRun({ files, isolations, times, unitGroups: cores, long: options.long })
  const checks: Job[] = options.long
    ? []
    : [checkJob('Types', 'tsc', ['--noEmit']), checkJob('Format and lint', 'biome', ['check', '.'])]
  const units = plan.units.map((group, at) => {
    const [first, ...more] = group.map(optionsOf)
    return more.length === 0 ? fileJob(first!) : groupJob(`Unit tests, part ${at + 1}`, [first!, ...more])
  })
  await phase('Checks and unit tests', () => runJobs([...units, ...checks], { concurrency: cores, write }))
  await phase('Lanes', async () => {
    const locks = new Set<string>()
    const lanes = Object.entries(plan.lanes) as [Isolation, Lane][]
    return (await Promise.all(lanes.map(([isolation, lane]) => runLane(isolation, lane, locks)))).flat()
  })
  await phase('Alone', () =>
    runJobs(
      plan.alone.map((file) => fileJob(optionsOf(file))),
      { concurrency: 1, write },
    ),
  )
}

async function runChosen(): Promise<void> {
  const jobs = chosen.map((file) =>
    fileJob(optionsOf({ name: file, path: relative(repoFolder, resolve(file)) })),
  )
  await phase('Chosen tests', () => runJobs(jobs, { concurrency: 1, write }))
}

function keepTimes(found: JobResult[]): void {
  const entries = found.map(({ job, ms }) => [job.name, Math.ceil(ms / 100) / 10] as const)
  const sorted = Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(timesFile, `${JSON.stringify(sorted, null, 2)}\n`)
}

await phase('Set-up', async () => {
  await prepareTests()
  return []
})
await (chosen.length > 0 ? runChosen() : runPlan())
const started = Date.now()
if (results.some(({ failed }) => failed > 0)) write('\n# Once more what failed\n')
const outcome = await repeatFailed(results, write)
phases.push({ title: 'Once more what failed', ms: Date.now() - started })
if (options['keep-times']) keepTimes(outcome.results)
const verdict = judge(outcome, everythingRequired)
write(summarize(phases, outcome))
for (const reason of verdict.reasons) write(`\n${reason}\n`)
write(`\n${verdict.lastLine}\n`)
process.exit(verdict.good ? 0 : 1)
