/**
 * Writes the answers of changes into their lines, many at once and after the clients have them. A change that wrote a row has its
 * line already; of those that were refused a team gets so many lines a minute.
 */
import type { Clock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { AuditLine, PendingChange } from './audit-line.ts'
import type { AuditStore } from './audit-store.ts'

const writeWithinMs = 250
const retryAfterMs = 2000
const linesPerWrite = 500
/** Lines that wait while the database does not answer. Beyond it, refused changes lose theirs first. */
const maxWaiting = 20_000
const refusalsPerMinute = 60
const minuteMs = 60_000

type AuditTrailParts = { audit: AuditStore; clock: Clock; log: Log }
type NewLine = Omit<AuditLine, 'lineID' | 'at' | 'status' | 'finishedAt'>
type Refusals = { since: number; count: number; dropped: number }

export class AuditTrail {
  readonly #parts: AuditTrailParts
  #waiting: AuditLine[] = []
  #writing: Promise<void> | undefined
  #cancelTimer: (() => void) | undefined
  #opened = 0
  readonly #refusals = new Map<string, Refusals>()

  constructor(parts: AuditTrailParts) {
    this.#parts = parts
  }

  open(line: NewLine): PendingChange {
    const at = this.#parts.clock.now()
    return { line: { ...line, lineID: this.#newID(at), at, status: null, finishedAt: null }, state: 'open' }
  }

  /** `object`: what the answer says that the change has made. */
  close(change: PendingChange, status: number, object: string | null = null): void {
    const hasRow = change.state === 'written' || change.state === 'claimed'
    change.state = 'closed'
    const line = { ...change.line, object: change.line.object ?? object, status }
    if (!hasRow && status >= 400 && !this.#isWithinRate(line)) return
    this.#add(line)
  }

  /** A change that is made at once, such as a sign-in. */
  note(line: NewLine, status: number): void {
    this.close(this.open(line), status)
  }

  /** In the order in which they were made, also within a millisecond. */
  #newID(at: number): string {
    this.#opened = (this.#opened + 1) % 1e6
    return `${at.toString(36)}-${String(this.#opened).padStart(6, '0')}-${randomHex(6)}`
  }

  /** Writes all lines that wait. */
  async flush(): Promise<void> {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
      if (this.#waiting.length > 0) this.#schedule(retryAfterMs)
    })
    await this.#writing
  }

  async prune(before: number): Promise<void> {
    while ((await this.#parts.audit.prune(before, 1000)) === 1000);
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting.slice(0, linesPerWrite)
      try {
        // Those who follow the lines look for what was written lately.
        const finishedAt = this.#parts.clock.now()
        await this.#parts.audit.finish(lines.map((line) => ({ ...line, finishedAt })))
      } catch (error) {
        const waiting = this.#waiting.length
        this.#parts.log.error({ err: error, waiting }, 'Lines of the audit cannot be written yet.')
        return
      }
      const written = new Set(lines)
      this.#waiting = this.#waiting.filter((line) => !written.has(line))
    }
  }

  #add(line: AuditLine): void {
    if (this.#waiting.length >= maxWaiting) {
      const refused = this.#waiting.findIndex(({ status }) => (status ?? 0) >= 400)
      this.#waiting.splice(Math.max(refused, 0), 1)
    }
    this.#waiting.push(line)
    this.#schedule(writeWithinMs)
  }

  #schedule(delayMs: number): void {
    this.#cancelTimer ??= this.#parts.clock.after(delayMs, () => void this.flush())
  }

  /** The first line of a minute tells how many of the minute before were left out. */
  #isWithinRate(line: AuditLine): boolean {
    const key = line.teamID ?? ''
    const now = this.#parts.clock.now()
    let refusals = this.#refusals.get(key)
    if (!refusals || now - refusals.since >= minuteMs || now < refusals.since) {
      const dropped = refusals?.dropped ?? 0
      if (dropped > 0) this.#add({ ...leftOut(line, dropped), lineID: this.#newID(now), at: now })
      if (this.#refusals.size > 1000) this.#refusals.clear()
      refusals = { since: now, count: 0, dropped: 0 }
      this.#refusals.set(key, refusals)
    }
    refusals.count++
    if (refusals.count <= refusalsPerMinute) return true
    refusals.dropped++
    return false
  }
}

const leftOut = ({ teamID }: AuditLine, dropped: number): Omit<AuditLine, 'lineID' | 'at'> => ({
  teamID,
  personID: null,
  person: null,
  credential: 'none',
  credentialID: null,
  address: '',
  action: 'audit.leave-out',
  object: `${dropped} refused requests`,
  requestID: '',
  status: 429,
  finishedAt: null,
})
