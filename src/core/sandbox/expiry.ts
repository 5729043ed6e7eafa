/** One timer over one query: fires when the earliest end of any running sandbox has come. */
import type { Clock } from '../../lib/clock.ts'

const longestSleepMs = 60_000

export class ExpiryTimer {
  readonly #clock: Clock
  readonly #expireDue: () => Promise<number | undefined>
  #cancel: (() => void) | undefined
  #armedFor = Number.POSITIVE_INFINITY
  #closed = false

  /** `expireDue` ends what is due and tells when the next end comes. */
  constructor(clock: Clock, expireDue: () => Promise<number | undefined>) {
    this.#clock = clock
    this.#expireDue = expireDue
  }

  /** Some sandbox now ends at `at`: wake no later than that. */
  arm(at: number): void {
    if (this.#closed || at >= this.#armedFor) return
    this.#cancel?.()
    this.#armedFor = at
    const delayMs = Math.min(Math.max(0, at - this.#clock.now()), longestSleepMs)
    this.#cancel = this.#clock.after(delayMs, () => void this.#fire())
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  async #fire(): Promise<void> {
    this.#armedFor = Number.POSITIVE_INFINITY
    const next = await this.#expireDue()
    this.arm(Math.min(next ?? Number.POSITIVE_INFINITY, this.#clock.now() + longestSleepMs))
  }
}
