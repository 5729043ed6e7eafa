/**
 * `npm test`: the checks and tests of the whole project, on a machine that is prepared for them first. Ends
 * with one line of counts; the exit code is not 0 when anything failed, or was skipped where nothing may be.
 */
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { checkJob } from './support/check-job.ts'
import { type Job, type JobResult, repeatFailed, runJobs, type Write } from './support/jobs.ts'
import { prepareTests } from './support/prepare-tests.ts'
import { fileJob } from './support/run-files.ts'
import { judge, type Phase, summarize } from './support/summary.ts'

const repoFolder = resolve(import.meta.dirname, '..')
const everythingRequired = Boolean(process.env.CI || process.env.WARREN_TEST_REQUIRE)
const write: Write = (text) => void process.stdout.write(text)

/** Given on the command line: only these, without the checks. */
const chosen = process.argv.slice(2).map((file) => resolve(file))
const find = (pattern: string) =>
  globSync(pattern, { cwd: repoFolder })
    .map((file) => join(repoFolder, file))
    .sort()

const jobsOf = (files: string[]) => files.map((path) => fileJob({ name: relative(repoFolder, path), path }))

const results: JobResult[] = []
const phases: Phase[] = []

async function phase(title: string, jobs: Job[], concurrency: number): Promise<void> {
  write(`\n# ${title}\n`)
  const started = Date.now()
  results.push(...(await runJobs(jobs, concurrency, write)))
  phases.push({ title, ms: Date.now() - started })
}

const started = Date.now()
await prepareTests()
phases.push({ title: 'Set-up', ms: Date.now() - started })
if (chosen.length > 0) {
  await phase('Chosen tests', jobsOf(chosen), 1)
} else {
  const checks = [
    checkJob('Format and lint', 'biome', ['check', '.']),
    checkJob('Types', 'tsc', ['--noEmit']),
  ]
  await phase('Checks', checks, 1)
  await phase('Unit tests', jobsOf(find('src/**/*.test.ts')), availableParallelism())
  // One file at a time: each starts Warrens of its own, and some count everything on the machine.
  const whole = find('test/**/*.test.ts').filter((file) => !file.includes('/test/bench/'))
  await phase('Tests of the whole', jobsOf(whole), 1)
}
const outcome = await repeatFailed(results, write)
phases.push({ title: 'Once more what failed', ms: outcome.repeatedMs })
const verdict = judge(outcome, everythingRequired)
write(summarize(phases, outcome))
for (const reason of verdict.reasons) write(`\n${reason}\n`)
write(`\n${verdict.lastLine}\n`)
process.exit(verdict.good ? 0 : 1)
