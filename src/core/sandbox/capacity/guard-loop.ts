/** Runs a guard's look at regular intervals. Logs a repeated failure once, and keeps trying. */
import { errorText } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'

type GuardLoopParts = {
  /** One look of the guard. */
  work: () => Promise<void>
  /** Delay before the next look. */
  everyMs: () => number
  /** Log message for a look that fails. */
  failure: string
  clock: Clock
  log: Log
}

export class GuardLoop {
  readonly #parts: GuardLoopParts
  #problem: string | undefined
  #cancelLook: (() => void) | undefined
  #looking = Promise.resolve()
  #isClosed = false

  constructor(parts: GuardLoopParts) {
    this.#parts = parts
  }

  start(): void {
    if (this.#isClosed) return
    this.#cancelLook = this.#parts.clock.after(this.#parts.everyMs(), () => {
      this.#looking = this.look().finally(() => this.start())
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelLook?.()
    await this.#looking
  }

  /** Looks once. Never rejects. */
  async look(): Promise<void> {
    try {
      await this.#parts.work()
      this.#problem = undefined
    } catch (error) {
      if (this.#problem === errorText(error)) return
      this.#problem = errorText(error)
      this.#parts.log.error({ err: error }, this.#parts.failure)
    }
  }
}
