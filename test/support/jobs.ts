/**
 * Runs jobs of a test run, some beside each other, and gives those that failed a second chance. A job is one
 * process that ends for certain and tells what it found: test files (run-files.ts) or a check.
 */

/** `why` is empty where the name says it all. */
export type Failure = { name: string; why: string }
export type Counts = { passed: number; failed: number; skipped: number; failures: Failure[] }
export type Write = (text: string) => void

export type Job = {
  name: string
  /** Whether a failure may be a coincidence, so that a second run can say more. */
  repeatable: boolean
  run(write: Write): Promise<Counts>
}

export type JobResult = Counts & { job: Job; ms: number }

/** Prints what a job says at once while it runs alone, and in one piece while others run beside it. */
export async function runJobs(jobs: Job[], concurrency: number, write: Write): Promise<JobResult[]> {
  const results: JobResult[] = []
  const waiting = [...jobs]
  const worker = async () => {
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
      results.push(await (concurrency === 1 ? runJob(job, write) : runQuietly(job, write)))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return results
}

async function runJob(job: Job, write: Write): Promise<JobResult> {
  const started = Date.now()
  write(`\n## ${job.name}\n`)
  const counts = await job.run(write)
  return { ...counts, job, ms: Date.now() - started }
}

async function runQuietly(job: Job, write: Write): Promise<JobResult> {
  let kept = ''
  const result = await runJob(job, (text) => {
    kept += text
  })
  write(kept)
  return result
}

/** So many jobs may fail by coincidence in one run; more mean that something is wrong with the whole. */
export const mostFlaky = 3
/** With more failures than this the change is broken, and running all of them again would only take long. */
const mostRepeated = 10

export type Outcome = {
  /** One result per job: where a job ran twice, that of its second run. */
  results: JobResult[]
  /** The first results of jobs that failed and then passed. */
  flaky: JobResult[]
  repeatedMs: number
}

/** Runs each failed job once more, alone, so that one coincidence does not spoil the whole run. */
export async function repeatFailed(results: JobResult[], write: Write): Promise<Outcome> {
  const started = Date.now()
  const failed = results.filter((result) => result.failed > 0 && result.job.repeatable)
  if (failed.length === 0 || failed.length > mostRepeated) return { results, flaky: [], repeatedMs: 0 }
  write('\n# Once more what failed\n')
  const second = await runJobs(
    failed.map(({ job }) => job),
    1,
    write,
  )
  return {
    results: results.map((first) => second.find(({ job }) => job === first.job) ?? first),
    flaky: failed.filter((first) => second.some(({ job, failed }) => job === first.job && failed === 0)),
    repeatedMs: Date.now() - started,
  }
}
