/**
 * How many sandboxes of one template would have had to wait ready lately for every create to find one: each create
 * takes one, and what is missing comes back at the pace of the pool.
 */

/** A template counts as in use for so long after a create, and its creates are remembered. */
export const inUseMs = 60 * 60_000
type Peak = { at: number; count: number }

export class Demand {
  readonly #most: number
  /** How many were missing right after the last create, had all been there before. */
  #missing: Peak = { at: 0, count: 0 }
  /** The highest first, and each later than the one before: what is the highest once the others are forgotten. */
  #peaks: Peak[] = []

  /** `most`: what goes beyond is not counted. */
  constructor(most: number) {
    this.#most = most
  }

  /** `refillMs`: after so long the pool has one sandbox more. */
  record(now: number, refillMs: number): void {
    const passedMs = now - this.#missing.at
    // A wall clock that was set back does not tell how long it took.
    const missing = passedMs < 0 ? 0 : Math.max(0, this.#missing.count - passedMs / refillMs)
    this.#missing = { at: now, count: Math.min(this.#most, missing + 1) }
    const count = Math.ceil(this.#missing.count)
    this.#peaks = [...this.#recent(now).filter((peak) => peak.count > count), { at: now, count }]
  }

  /** All that is wanted is there: whatever the pace was, nothing is missing. */
  recordFull(): void {
    this.#missing.count = 0
  }

  peak(now: number): number {
    return this.#recent(now)[0]?.count ?? 0
  }

  /** Nothing beyond `count` is wanted until creates ask for it again. */
  lowerTo(count: number): void {
    const lower = (peak: Peak): Peak => ({ ...peak, count: Math.min(peak.count, count) })
    this.#missing = lower(this.#missing)
    this.#peaks = this.#peaks.map(lower)
  }

  /** A wall clock that was set back leaves times in the future: they count as old. */
  #recent(now: number): Peak[] {
    return this.#peaks.filter(({ at }) => at <= now && now - at < inUseMs)
  }
}
