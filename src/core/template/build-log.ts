/** What builds tell: in memory while they run, for clients that ask five times a second, and in the log for after. */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { LogEntry, LogStore, NumberedLogEntry } from '../logs.ts'
import type { BuildLine } from './builder.ts'

/** A client counts lines from the first on: what comes after these is not told. */
const mostKept = 20_000
const noMore = 'This build tells too much: the lines that follow are not shown.'
const longestLine = 8192

export type BuildLogParts = {
  logs: LogStore
  /** What the log keeps of one build for certain: did it drop the first lines, all others would be counted anew. */
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
    // No two lines have the same time, so that a page can end at any.
    const at = Math.max(this.#parts.clock.now(), (entries.at(-1)?.at ?? 0) + 1)
    const fields: Record<string, string> = step === null ? {} : { step }
    const entry = { at, level, message: message.slice(0, longestLine), fields }
    const last = { ...entry, message: noMore }
    const bytes = running.bytes + sizeOf(entry)
    running.isFull = entries.length === mostKept - 1 || bytes + sizeOf(last) > this.#parts.maxBytes
    const told = running.isFull ? last : entry
    running.bytes = bytes
    entries.push(told)
    running.unwritten.push({ sequence: 0, ...told })
    running.writing = running.writing.then(() => this.#write(buildID, running))
  }

  /** All of it so far, oldest first. */
  async read(buildID: string): Promise<LogEntry[]> {
    const running = this.#running.get(buildID)
    if (running) return running.entries
    return this.#parts.logs.read(buildID, { direction: 'forward', limit: mostKept })
  }

  /** Nothing more will be told. */
  async end(buildID: string): Promise<void> {
    const running = this.#running.get(buildID)
    if (!running) return
    await running.writing
    await this.#write(buildID, running)
    this.#running.delete(buildID)
  }

  /** What could not be written is tried again with what follows, so that no line is missing among the others. */
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
  ...{ entries: [], bytes: 0, isFull: false, unwritten: [] },
  writing: Promise.resolve(),
})

/** As a line of the log. */
const sizeOf = (entry: LogEntry): number => Buffer.byteLength(JSON.stringify({ sequence: 0, ...entry })) + 1
