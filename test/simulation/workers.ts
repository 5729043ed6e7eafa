/**
 * Runs histories in several processes side by side. Each process gets a few seeds at a time, so that the seeds that were run are
 * one range even if the time is over before the last of them.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { runHistory } from './history.ts'
import { planHistory } from './plan-history.ts'
import { openDatabase, optionsOf, type SearchOptions, seedsFrom } from './search.ts'

export type WorkersOptions = SearchOptions & {
  workers: number
  first: number
  histories: number
  /** Undefined: no limit. */
  forMs: number | undefined
  /** The words of the command line that make the plans of this process, for the other ones. */
  words: readonly string[]
}

type Batch = { first: number; count: number }
type Alarm = { seed: number; profile: string; message: string }
type Report = Batch & { alarms: Alarm[]; steps: number }

const seedsPerBatch = 20
/** A history makes many objects that live for a moment. */
export const nodeOptions = ['--max-semi-space-size=64']
/** What a process of a history still awaited when it died is never forgotten, and would fill gigabytes of memory. */
const batchesPerProcess = 100
const progressEveryMs = 30_000
/** A process that takes longer for one batch is taken for an alarm: its history never comes to an end. */
const maxBatchMs = 300_000

/** In a process of its own: answers each batch that it is sent. */
export async function work({ plan: options, history }: SearchOptions): Promise<void> {
  const database = await openDatabase()
  process.on('message', async ({ first, count }: Batch) => {
    const report: Report = { first, count, alarms: [], steps: 0 }
    for (const seed of seedsFrom(first, count)) {
      const plan = planHistory(seed, options)
      const { violations, steps } = await runHistory(database, plan, history)
      report.steps += steps
      const [violation] = violations
      if (violation)
        report.alarms.push({ seed, profile: plan.profile ?? 'usual', message: violation.message })
    }
    process.send!(report)
  })
  process.on('disconnect', () => process.exit(0))
}

/** Prints each alarm as it is seen, and at the end how many there were. Returns the number of alarms. */
export async function runInWorkers(options: WorkersOptions): Promise<number> {
  const { workers, first, histories, forMs, words, plan } = options
  const began = performance.now()
  const until = forMs === undefined ? Number.POSITIVE_INFINITY : began + forMs
  const total = { histories: 0, alarms: 0, steps: 0 }
  let given = 0
  const nextBatch = (): Batch | undefined => {
    const count = Math.min(seedsPerBatch, histories - given)
    if (count <= 0 || performance.now() >= until) return undefined
    given += count
    return { first: (first + given - count) % 2 ** 31, count }
  }
  const say = (text: string) => console.log(`${((performance.now() - began) / 1000).toFixed(0)} s: ${text}`)
  const alarm = (text: string) => {
    total.alarms++
    say(`ALARM ${text}`)
  }
  const note = ({ count, alarms, steps }: Report) => {
    total.histories += count
    total.steps += steps
    for (const { seed, profile, message } of alarms)
      alarm(`--seed ${seed}${optionsOf(plan)} (${profile}): ${message}`)
  }
  say(`${histories} histories from seed ${first} on in ${workers} processes${optionsOf(plan)}`)
  const progress = setInterval(
    () => say(`${total.histories} histories, ${total.alarms} alarms`),
    progressEveryMs,
  )
  await Promise.all(
    Array.from({ length: workers }, () => runWorker(words, nextBatch, note, alarm).catch(alarmOf(alarm))),
  )
  clearInterval(progress)
  const seconds = (performance.now() - began) / 1000
  const msEach = total.histories === 0 ? 0 : (seconds * 1000 * workers) / total.histories
  say(
    `DONE ${total.histories} histories from seed ${first} on${optionsOf(plan)}, ${total.steps} steps, ${total.alarms} alarms, ` +
      `${msEach.toFixed(1)} ms of one process each`,
  )
  return total.alarms
}

const alarmOf = (alarm: (text: string) => void) => (error: Error) => alarm(error.message)

/** Gives one process after the other its batches until there are none left. A process that ends or is stuck is replaced. */
async function runWorker(
  words: readonly string[],
  nextBatch: () => Batch | undefined,
  note: (report: Report) => void,
  alarm: (text: string) => void,
): Promise<void> {
  let child: ChildProcess | undefined
  let batches = 0
  for (let batch = nextBatch(); batch; batch = nextBatch()) {
    if (batches++ % batchesPerProcess === 0) {
      child?.disconnect()
      child = undefined
    }
    child ??= fork(process.argv[1]!, ['--worker', ...words], { execArgv: nodeOptions })
    const report = await ask(child, batch)
    if (report) note(report)
    else {
      alarm(`a process ended or was stuck in the ${batch.count} histories from seed ${batch.first} on`)
      child.kill('SIGKILL')
      child = undefined
    }
  }
  child?.disconnect()
}

/** Undefined if the process ends, or takes too long. */
function ask(child: ChildProcess, batch: Batch): Promise<Report | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => end(undefined), maxBatchMs)
    const onExit = () => end(undefined)
    const end = (report: Report | undefined) => {
      clearTimeout(timer)
      child.off('message', end)
      child.off('exit', onExit)
      resolve(report)
    }
    child.once('message', end)
    child.once('exit', onExit)
    child.send(batch)
  })
}
