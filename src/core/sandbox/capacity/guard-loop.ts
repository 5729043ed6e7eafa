/** Looks at a figure of the machine again and again. One that cannot be read is told once, and looked at again. */
import { errorText } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'

export type GuardLoopParts = {
  /** What a look does. */
  work: () => Promise<void>
  /** How long until the next one. */
  everyMs: () => number
  /** Told when a look fails. */
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
