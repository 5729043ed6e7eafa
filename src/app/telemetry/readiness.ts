/**
 * Tells whether requests can be served now. A server that is alive may not be ready: its database may not
 * answer.
 */
import type { Clock } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'

/** Anybody may ask, so the database is queried at most this often. */
const trueForMs = 1000
const answersWithinMs = 2000

export type ReadinessParts = { askStore: () => Promise<unknown>; clock: Clock; log: Log }

export class Readiness {
  readonly #parts: ReadinessParts
  #isClosing = false
  #last: { at: number; reason: Promise<string | undefined> } | undefined

  constructor(parts: ReadinessParts) {
    this.#parts = parts
  }

  /** Tells load balancers from now on to use other servers. */
  close(): void {
    this.#isClosing = true
  }

  /** Undefined if the server is ready. */
  async whyNot(): Promise<string | undefined> {
    if (this.#isClosing) return 'The server is closing.'
    const now = this.#parts.clock.now()
    if (!this.#last || now - this.#last.at >= trueForMs) this.#last = { at: now, reason: this.#ask() }
    return this.#last.reason
  }

  async #ask(): Promise<string | undefined> {
    const { askStore, log } = this.#parts
    try {
      await withDeadline(answersWithinMs, 'the database did not answer in time', async () => askStore())
      return undefined
    } catch (error) {
      log.warn({ err: error }, 'The server is not ready: its database does not answer.')
      return 'The database does not answer.'
    }
  }
}
