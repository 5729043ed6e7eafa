/** Delays between tries of something that fails: each is twice as long as the one before, up to a longest one. */

type DelayRange = { firstMs: number; longestMs: number }

/** The delay after this many failures in a row. */
export const delayAfter = (failures: number, { firstMs, longestMs }: DelayRange): number =>
  Math.min(longestMs, firstMs * 2 ** (failures - 1))

/** For each key, when it may be tried again after it has failed. */
export class RetryDelays {
  readonly #range: DelayRange
  readonly #failed = new Map<string, { failures: number; retryAt: number }>()

  constructor(range: DelayRange) {
    this.#range = range
  }

  /** Number of keys that are remembered. */
  get size(): number {
    return this.#failed.size
  }

  /** Returns when the key may be tried again. */
  noteFailure(key: string, now: number): number {
    // Whatever was not tried for this long is gone, or was tried by somebody else.
    for (const [known, { retryAt }] of this.#failed)
      if (now - retryAt > 2 * this.#range.longestMs) this.#failed.delete(known)
    const failures = (this.#failed.get(key)?.failures ?? 0) + 1
    const retryAt = now + delayAfter(failures, this.#range)
    this.#failed.set(key, { failures, retryAt })
    return retryAt
  }

  noteSuccess(key: string): void {
    this.#failed.delete(key)
  }

  mustWait(key: string, now: number): boolean {
    const retryAt = this.#failed.get(key)?.retryAt ?? now
    // After a jump of the clock the time may be further away than any delay, and then says nothing.
    return retryAt > now && retryAt <= now + this.#range.longestMs
  }
}
