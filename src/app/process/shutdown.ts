/** Closes the parts in the reverse order of their opening, each within its time limit. */
import { withDeadline } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'

const closeWithinMs = 10_000

export class Closers {
  readonly #log: Log
  readonly #stack: { name: string; close: () => Promise<void> }[] = []

  constructor(log: Log) {
    this.#log = log
  }

  add(name: string, close: () => Promise<void> | void): void {
    this.#stack.push({ name, close: async () => close() })
  }

  async closeAll(): Promise<void> {
    for (let next = this.#stack.pop(); next; next = this.#stack.pop()) {
      const { name, close } = next
      try {
        await withDeadline(closeWithinMs, `${name} did not close in time`, close)
      } catch (error) {
        this.#log.error({ err: error }, `could not close ${name}`)
      }
    }
  }
}
