import { type Clock, sleep } from '../../lib/clock.ts'
import { delayAfter } from '../../lib/retry-delays.ts'

/** Programs of the sandbox wait for the bytes, so a store that is back is noticed soon. */
const retries = { firstMs: 1000, longestMs: 5000 }
/** A sandbox stands still where it lacks memory. After this time without any success it goes back to its snapshot. */
export const patienceMs = 5 * 60_000

/** Tries the reads of one load again until none of them has succeeded for minutes. */
export class Patience {
  readonly #clock: Clock
  readonly #onFailure: (error: unknown) => void
  #lastSuccessAt: number
  #isFailing = false

  /** `onFailure` is called with the first failure after a success. */
  constructor(clock: Clock, onFailure: (error: unknown) => void) {
    this.#clock = clock
    this.#onFailure = onFailure
    this.#lastSuccessAt = clock.now()
  }

  async try<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        const result = await work()
        this.#lastSuccessAt = this.#clock.now()
        this.#isFailing = false
        return result
      } catch (error) {
        signal.throwIfAborted()
        if (!this.#isFailing) this.#onFailure(error)
        this.#isFailing = true
        if (this.#clock.now() - this.#lastSuccessAt >= patienceMs) throw error
        await sleep(this.#clock, delayAfter(failures, retries), signal)
      }
    }
  }
}
