/**
 * The log of this sandbox: numbered entries in bounded memory until the control plane collects them. It must
 * never delay or outgrow what it describes: excess entries are dropped, and an entry says so.
 */
import type { Clock } from '../../lib/clock.ts'

type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** No secrets: neither tokens nor values of environment variables belong in an entry. */
type LogFields = { logger: string; event_type: string } & Record<string, string>

const longestText = 4096
const maxBufferedBytes = 512 * 1024
/** The cost of an entry in addition to its text. */
const entryOverhead = 96
/** Output may come in a burst of this size, then at this pace. */
const outputBurstBytes = 256 * 1024
const outputBytesPerMs = 128
/**
 * Every entry has its own time, so that a page can end at any entry. The times may run ahead of the clock by
 * this much.
 */
const furthestAheadMs = 2000
/** Dropped entries are reported together after this time. */
export const reportLeftOutAfterMs = 1000

type BufferedLine = { at: number; line: string }

/** `canWait`: more entries will follow soon, so that a sender may send them together. */
type LogListener = (canWait: boolean) => void

export class AgentLog {
  readonly clock: Clock
  #firstSequence: number
  #buffered: BufferedLine[] = []
  #bufferedBytes = 0
  #lastSequence: number
  #lastAt = 0
  #outputBytes = outputBurstBytes
  #outputAt: number
  #leftOut = 0
  #listeners = new Set<LogListener>()

  constructor(clock: Clock) {
    this.clock = clock
    this.#outputAt = clock.now()
    // A sandbox that is booted again continues with numbers that its earlier run cannot have reached.
    this.#firstSequence = clock.now() * 1000
    this.#lastSequence = this.#firstSequence
  }

  add(level: LogLevel, message: string, fields: LogFields, canWait = false): void {
    if (this.#lastAt < this.clock.now() + furthestAheadMs) this.#push(level, message, fields, canWait)
    else if (this.#leftOut++ === 0) this.clock.after(reportLeftOutAfterMs, () => this.#reportLeftOut())
  }

  /** True if this many bytes of output may be logged now. */
  takeOutput(bytes: number): boolean {
    const now = this.clock.now()
    const earned = Math.max(0, now - this.#outputAt) * outputBytesPerMs
    this.#outputBytes = Math.min(outputBurstBytes, this.#outputBytes + earned)
    this.#outputAt = now
    if (this.#outputBytes < bytes) return false
    this.#outputBytes -= bytes
    return true
  }

  /** Drops uncollected entries: they belong to the sandbox from whose memory this one was started. */
  forget(): void {
    this.#buffered = []
    this.#bufferedBytes = 0
    this.#leftOut = 0
    this.#firstSequence = this.#lastSequence
  }

  /** Calls `listener` after each new entry until the returned function is called. */
  follow(listener: LogListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Returns the entries after number `after` as lines of JSON; undefined if there are none. */
  readAfter(after: number, maxBytes: number): { text: string; last: number } | undefined {
    // A number that this run has not reached belongs to another run.
    const read = after > this.#lastSequence ? this.#firstSequence : Math.max(after, this.#firstSequence)
    if (read === this.#lastSequence) return undefined
    const oldest = this.#lastSequence - this.#buffered.length + 1
    const from = Math.max(0, read + 1 - oldest)
    const lines = read + 1 < oldest ? [this.#droppedLine(oldest, oldest - 1 - read)] : []
    let bytes = 0
    let end = from
    while (end < this.#buffered.length && (end === from || bytes < maxBytes)) {
      const { line } = this.#buffered[end++]!
      bytes += line.length
      lines.push(line)
    }
    return { text: lines.join(''), last: oldest + end - 1 }
  }

  #push(level: LogLevel, message: string, given: LogFields, canWait = false): void {
    this.#lastAt = Math.max(this.clock.now(), this.#lastAt + 1)
    const sequence = ++this.#lastSequence
    const fields = cutFields(given)
    const line = `${JSON.stringify({ sequence, at: this.#lastAt, level, message: cut(message), fields })}\n`
    this.#buffered.push({ at: this.#lastAt, line })
    this.#bufferedBytes += line.length + entryOverhead
    while (this.#bufferedBytes > maxBufferedBytes) {
      this.#bufferedBytes -= this.#buffered.shift()!.line.length + entryOverhead
    }
    for (const listener of this.#listeners) listener(canWait)
  }

  #reportLeftOut(): void {
    const entries = String(this.#leftOut)
    this.#leftOut = 0
    const fields = { logger: 'agent', event_type: 'left_out', entries }
    this.#push('warn', `${entries} entries were left out here: too many at once`, fields)
  }

  #droppedLine(oldest: number, count: number): string {
    const entry = {
      sequence: oldest - 1,
      at: this.#buffered[0]!.at - 1,
      level: 'warn',
      message: `${count} entries were dropped here before anybody collected them`,
      fields: { logger: 'agent', event_type: 'dropped', entries: String(count) },
    }
    return `${JSON.stringify(entry)}\n`
  }
}

function cutFields(fields: LogFields): LogFields {
  const isShort = Object.values(fields).every((value) => value.length <= longestText)
  if (isShort) return fields
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, cut(value)])) as LogFields
}

function cut(text: string): string {
  if (text.length <= longestText) return text
  // Does not cut through the middle of a character.
  const end = /[\ud800-\udbff]/.test(text[longestText - 1]!) ? longestText - 1 : longestText
  return `${text.slice(0, end)}…`
}
