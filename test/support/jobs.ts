/**
 * Runs the jobs of a test run, some beside each other, and gives those that failed a second chance. A job is one
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
  /** What of the machine is there only once: jobs with the same lock do not run beside each other. */
  lock?: string | undefined
  /**
   * One result, of this job; or one per file of it, each of a job that would run that file alone. No two jobs have the
   * same seat, counted from 0, at the same time.
   */
  run(write: Write, seat: number): Promise<JobResult[]>
}

export type JobResult = Counts & { job: Job; ms: number }

export type JobsOptions = {
  /** Number of jobs at a time. A job that runs alone prints as it runs; beside others, its output is printed as a whole. */
  concurrency: number
  /** Once `after` has resolved, this number of further jobs may run at a time. */
  more?: { after: Promise<unknown>; concurrency: number } | undefined
  write: Write
  /** Shared by those that run beside each other. */
  locks?: Set<string>
  live?: boolean
}

export async function runJobs(jobs: Job[], options: JobsOptions): Promise<JobResult[]> {
  const { concurrency, more, write, locks = new Set(), live = concurrency === 1 } = options
  const results: JobResult[] = []
  const waiting = [...jobs]
  const work = async (seat: number) => {
    for (let job = takeNext(waiting, locks); job !== undefined; job = takeNext(waiting, locks)) {
      if (job.lock) locks.add(job.lock)
      results.push(...(await (live ? runAloud(job, write, seat) : runInOnePiece(job, write, seat))))
      if (job.lock) locks.delete(job.lock)
    }
  }
  const workFrom = (first: number, count: number) =>
    Promise.all(Array.from({ length: count }, (_, at) => work(first + at)))
  await Promise.all([
    workFrom(0, concurrency),
    more?.after.then(() => workFrom(concurrency, more.concurrency)),
  ])
  return results
}

/** The next whose lock is free. If there is none, the first: what it needs makes it wait by itself. */
function takeNext(waiting: Job[], locks: Set<string>): Job | undefined {
  const free = waiting.findIndex(({ lock }) => lock === undefined || !locks.has(lock))
  return waiting.splice(Math.max(free, 0), 1)[0]
}

function runAloud(job: Job, write: Write, seat: number): Promise<JobResult[]> {
  write(`\n## ${job.name}\n`)
  return job.run(write, seat)
}

async function runInOnePiece(job: Job, write: Write, seat: number): Promise<JobResult[]> {
  let output = ''
  const collect = (text: string) => {
    output += text
  }
  const results = await runAloud(job, collect, seat)
  write(output)
  return results
}

/**
 * So many files, of some four hundred, may fail by coincidence in one run, as when others take most of the machine; more
 * mean that something is wrong with the whole.
 */
export const maxFlaky = 8
/** With more failures than this the change is broken, and running all of them again would only take long. */
const maxRepeated = 20

export type Outcome = {
  /** Where a job ran twice, what its second run found. */
  results: JobResult[]
  /** The first results of jobs that failed and then passed. */
  flaky: JobResult[]
}

/** Runs each failed job once more, alone, so that one coincidence does not spoil the whole run. */
export async function repeatFailed(results: JobResult[], write: Write): Promise<Outcome> {
  const failed = results.filter((result) => result.failed > 0 && result.job.repeatable)
  if (failed.length === 0 || failed.length > maxRepeated) return { results, flaky: [] }
  const outcome: Outcome = { results: results.filter((result) => !failed.includes(result)), flaky: [] }
  for (const first of failed) {
    const second = await runJobs([first.job], { concurrency: 1, write })
    outcome.results.push(...second)
    if (second.every((result) => result.failed === 0)) outcome.flaky.push(first)
  }
  return outcome
}
