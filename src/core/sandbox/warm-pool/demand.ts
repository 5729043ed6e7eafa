/**
 * Computes how many sandboxes of one template would have had to be ready lately for every create to find one:
 * each create takes one, and the pool replaces them at its pace.
 */

/** How long a template counts as in use after a create, and how long its creates are remembered. */
export const inUseMs = 60 * 60_000
type Peak = { at: number; count: number }

export class Demand {
  readonly #max: number
  /** The number of sandboxes missing right after the last create, if all had been there before. */
  #missing: Peak = { at: 0, count: 0 }
  /**
   * Descending peaks, each later than the one before, so that the next one is highest when the first expires.
   */
  #peaks: Peak[] = []

  /** `max`: limit for the count. */
  constructor(max: number) {
    this.#max = max
  }

  /** `refillMs`: the time in which the pool adds one sandbox. */
  record(now: number, refillMs: number): void {
    const passedMs = now - this.#missing.at
    // If the wall clock was set back, the elapsed time is unknown.
    const missing = passedMs < 0 ? 0 : Math.max(0, this.#missing.count - passedMs / refillMs)
    this.#missing = { at: now, count: Math.min(this.#max, missing + 1) }
    const count = Math.ceil(this.#missing.count)
    this.#peaks = [...this.#recent(now).filter((peak) => peak.count > count), { at: now, count }]
  }

  /** Called when the pool has all wanted sandboxes: nothing is missing, whatever the pace was. */
  recordFull(): void {
    this.#missing.count = 0
  }

  peak(now: number): number {
    return this.#recent(now)[0]?.count ?? 0
  }

  /** Lowers the demand to `count` until creates ask for more again. */
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
