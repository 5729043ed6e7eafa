/**
 * The logs of builds: in memory while a build runs, because clients ask five times a second, and in the log
 * store for later.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { LogEntry, LogStore, NumberedLogEntry } from '../ports/logs.ts'
import type { BuildLine } from './builder.ts'

/**
 * Maximum number of lines. Clients count lines from the first on, so later lines are dropped, never early
 * ones.
 */
const maxLines = 20_000
const noMore = 'The log of this build is too long: the lines that follow are not shown.'
const longestLine = 8192

type BuildLogParts = {
  logs: LogStore
  /**
   * The size that the log store always retains of one build. If it dropped early lines, clients would count
   * the rest wrongly.
   */
  maxBytes: number
  clock: Clock
  log: Log
}

type Running = {
  entries: LogEntry[]
  bytes: number
  isFull: boolean
  unwritten: NumberedLogEntry[]
  writing: Promise<void>
}

export class BuildLog {
  readonly #parts: BuildLogParts
  readonly #running = new Map<string, Running>()

  constructor(parts: BuildLogParts) {
    this.#parts = parts
  }

  add(buildID: string, { level, message, step }: BuildLine): void {
    const running = this.#running.get(buildID) ?? begun()
    this.#running.set(buildID, running)
    const { entries } = running
    if (running.isFull) return
    // Every line has its own time, so that a page can end at any line.
    const at = Math.max(this.#parts.clock.now(), (entries.at(-1)?.at ?? 0) + 1)
    const fields: Record<string, string> = step === null ? {} : { step }
    const entry = { at, level, message: message.slice(0, longestLine), fields }
    const last = { ...entry, message: noMore }
    const bytes = running.bytes + sizeOf(entry)
    running.isFull = entries.length === maxLines - 1 || bytes + sizeOf(last) > this.#parts.maxBytes
    const added = running.isFull ? last : entry
    running.bytes = bytes
    entries.push(added)
    running.unwritten.push({ sequence: 0, ...added })
    running.writing = running.writing.then(() => this.#write(buildID, running))
  }

  /** All lines so far, oldest first. */
  async read(buildID: string): Promise<LogEntry[]> {
    const running = this.#running.get(buildID)
    if (running) return running.entries
    return this.#parts.logs.read(buildID, { direction: 'forward', limit: maxLines })
  }

  /** Called when the build adds no more lines. */
  async end(buildID: string): Promise<void> {
    const running = this.#running.get(buildID)
    if (!running) return
    await running.writing
    await this.#write(buildID, running)
    this.#running.delete(buildID)
  }

  /** Writes failed lines again together with the next ones, so that no line is missing in between. */
  async #write(buildID: string, running: Running): Promise<void> {
    const { logs, log } = this.#parts
    const { length } = running.unwritten
    if (length === 0) return
    await logs.append(buildID, running.unwritten.slice()).then(
      () => void running.unwritten.splice(0, length),
      (error) => log.warn({ buildID, err: error }, 'a build log could not be written'),
    )
  }
}

const begun = (): Running => ({
  entries: [],
  bytes: 0,
  isFull: false,
  unwritten: [],
  writing: Promise.resolve(),
})

/** The size of the entry as a line of the log. */
const sizeOf = (entry: LogEntry): number => Buffer.byteLength(JSON.stringify({ sequence: 0, ...entry })) + 1
