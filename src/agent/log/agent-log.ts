/**
 * What happened in this sandbox: numbered entries in a bounded part of memory, until somebody collects them.
 * It must never hold up or outgrow what it tells of: what is too much at once is left out, and that is told.
 */
import type { Clock } from '../../lib/clock.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** No secrets: neither tokens nor values of environment variables belong in an entry. */
export type LogFields = { logger: string; event_type: string } & Record<string, string>

const longestText = 4096
const mostKeptBytes = 512 * 1024
/** What an entry costs beside its text. */
const entryOverhead = 96
/** Output may come in a burst of this size, then at this pace. */
const outputBurstBytes = 256 * 1024
const outputBytesPerMs = 128
/** No two entries have the same time, so that a page can end at any. This far ahead of the clock they may run. */
const furthestAheadMs = 2000
/** What was left out is told after this long, all at once. */
export const tellLeftOutAfterMs = 1000

type Kept = { at: number; line: string }

/** More will follow soon after an entry that can wait: who sends them may send them together. */
type LogListener = (canWait: boolean) => void

export class AgentLog {
  readonly clock: Clock
  #firstSequence: number
  #kept: Kept[] = []
  #keptBytes = 0
  #lastSequence: number
  #lastAt = 0
  #outputBytes = outputBurstBytes
  #outputAt: number
  #leftOut = 0
  #listeners = new Set<LogListener>()

  constructor(clock: Clock) {
    this.clock = clock
    this.#outputAt = clock.now()
    // A sandbox that is booted again counts on from where its earlier life cannot have come.
    this.#firstSequence = clock.now() * 1000
    this.#lastSequence = this.#firstSequence
  }

  add(level: LogLevel, message: string, fields: LogFields, canWait = false): void {
    if (this.#lastAt < this.clock.now() + furthestAheadMs) this.#push(level, message, fields, canWait)
    else if (this.#leftOut++ === 0) this.clock.after(tellLeftOutAfterMs, () => this.#tellLeftOut())
  }

  /** Whether so many bytes of output may be told now. */
  takeOutput(bytes: number): boolean {
    const now = this.clock.now()
    const earned = Math.max(0, now - this.#outputAt) * outputBytesPerMs
    this.#outputBytes = Math.min(outputBurstBytes, this.#outputBytes + earned)
    this.#outputAt = now
    if (this.#outputBytes < bytes) return false
    this.#outputBytes -= bytes
    return true
  }

  /** Drops what was not collected yet: it belongs to the sandbox whose memory this one was started from. */
  forget(): void {
    this.#kept = []
    this.#keptBytes = 0
    this.#leftOut = 0
    this.#firstSequence = this.#lastSequence
  }

  /** Calls `listener` after each new entry; the returned function ends it. */
  follow(listener: LogListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Entries that follow the one numbered `after`, as lines of JSON; undefined when there are none. */
  readAfter(after: number, mostBytes: number): { text: string; last: number } | undefined {
    // A number this life has not reached is one of another life.
    const read = after > this.#lastSequence ? this.#firstSequence : Math.max(after, this.#firstSequence)
    if (read === this.#lastSequence) return undefined
    const oldest = this.#lastSequence - this.#kept.length + 1
    const from = Math.max(0, read + 1 - oldest)
    const lines = read + 1 < oldest ? [this.#droppedLine(oldest, oldest - 1 - read)] : []
    let bytes = 0
    let end = from
    while (end < this.#kept.length && (end === from || bytes < mostBytes)) {
      const { line } = this.#kept[end++]!
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
    this.#kept.push({ at: this.#lastAt, line })
    this.#keptBytes += line.length + entryOverhead
    while (this.#keptBytes > mostKeptBytes) {
      this.#keptBytes -= this.#kept.shift()!.line.length + entryOverhead
    }
    for (const listener of this.#listeners) listener(canWait)
  }

  #tellLeftOut(): void {
    const entries = String(this.#leftOut)
    this.#leftOut = 0
    const fields = { logger: 'agent', event_type: 'left_out', entries }
    this.#push('warn', `${entries} entries were left out here: too many at once`, fields)
  }

  #droppedLine(oldest: number, count: number): string {
    const entry = {
      sequence: oldest - 1,
      at: this.#kept[0]!.at - 1,
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
  // Not through the middle of a character.
  const end = /[\ud800-\udbff]/.test(text[longestText - 1]!) ? longestText - 1 : longestText
  return `${text.slice(0, end)}…`
}
