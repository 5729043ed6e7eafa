/** What builds tell: in memory while they run, for clients that ask five times a second, and in the log for after. */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { LogEntry, LogStore } from '../logs.ts'
import type { BuildLine } from './builder.ts'

/** A client counts lines from the first on: what comes after these is not told. */
const mostKept = 20_000
const noMore = 'This build tells too much: the lines that follow are not shown.'
const longestLine = 8192

export class BuildLog {
  readonly #parts: { logs: LogStore; clock: Clock; log: Log }
  readonly #running = new Map<string, LogEntry[]>()
  readonly #writing = new Map<string, Promise<void>>()

  constructor(parts: { logs: LogStore; clock: Clock; log: Log }) {
    this.#parts = parts
  }

  add(buildID: string, { level, message, step }: BuildLine): void {
    const { logs, clock, log } = this.#parts
    const entries = this.#running.get(buildID) ?? []
    this.#running.set(buildID, entries)
    if (entries.length >= mostKept) return
    const text = entries.length === mostKept - 1 ? noMore : message.slice(0, longestLine)
    // No two lines have the same time, so that a page can end at any.
    const at = Math.max(clock.now(), (entries.at(-1)?.at ?? 0) + 1)
    const fields: Record<string, string> = step === null ? {} : { step }
    const entry = { at, level, message: text, fields }
    entries.push(entry)
    const before = this.#writing.get(buildID) ?? Promise.resolve()
    const writing = before
      .then(() => logs.append(buildID, [{ sequence: 0, ...entry }]))
      .catch((error) => log.warn({ buildID, err: error }, 'a build log could not be written'))
    this.#writing.set(buildID, writing)
  }

  /** All of it so far, oldest first. */
  async read(buildID: string): Promise<LogEntry[]> {
    const running = this.#running.get(buildID)
    if (running) return running
    return this.#parts.logs.read(buildID, { direction: 'forward', limit: mostKept })
  }

  /** Nothing more will be told. */
  async end(buildID: string): Promise<void> {
    await this.#writing.get(buildID)
    this.#writing.delete(buildID)
    this.#running.delete(buildID)
  }
}
