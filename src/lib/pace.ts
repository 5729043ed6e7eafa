import { type Clock, systemClock } from './clock.ts'

export type PaceOptions = {
  bytesPerSecond: number
  /** So much may be spent at once after a pause. */
  burstBytes: number
  clock?: Clock
}

/**
 * Bounds what is spent over time. Spending more than there is makes a debt, which is waited off: so several that share
 * a pace and wait after each spending get the same share.
 */
export class Pace {
  readonly #bytesPerMs: number
  readonly #burstBytes: number
  readonly #clock: Clock
  #left: number
  #at: number

  constructor({ bytesPerSecond, burstBytes, clock = systemClock }: PaceOptions) {
    this.#bytesPerMs = bytesPerSecond / 1000
    this.#burstBytes = burstBytes
    this.#clock = clock
    this.#left = burstBytes
    this.#at = clock.now()
  }

  /** Gives the milliseconds to wait before anything more is spent. */
  spend(bytes: number): number {
    const now = this.#clock.now()
    // A clock that is set back earns nothing, and nothing is owed for it.
    const earned = Math.max(0, now - this.#at) * this.#bytesPerMs
    this.#at = now
    this.#left = Math.min(this.#burstBytes, this.#left + earned) - bytes
    return this.#left >= 0 ? 0 : Math.ceil(-this.#left / this.#bytesPerMs)
  }
}
