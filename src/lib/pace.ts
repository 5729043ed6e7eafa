import { type Clock, systemClock } from './clock.ts'

type PaceOptions = {
  bytesPerSecond: number
  /** Maximum amount that may be spent at once after a pause. */
  burstBytes: number
  clock?: Clock
}

/**
 * Limits spending over time. A caller that spends more than is available makes a debt and must wait until it is paid off.
 * So callers that share a pace and wait after each spending get equal shares.
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

  /** Returns the milliseconds to wait before the next spending. */
  spend(bytes: number): number {
    const now = this.#clock.now()
    // A clock that is set back adds neither budget nor debt.
    const earned = Math.max(0, now - this.#at) * this.#bytesPerMs
    this.#at = now
    this.#left = Math.min(this.#burstBytes, this.#left + earned) - bytes
    return this.#left >= 0 ? 0 : Math.ceil(-this.#left / this.#bytesPerMs)
  }
}
