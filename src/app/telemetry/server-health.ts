/**
 * Tells whether this process serves, and apart from that whether its database answers. Traffic to sandboxes goes
 * on without a database, so an outage must not take a server out of its load balancer.
 */
import { type Clock, waitAtMost } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'

/** Anybody may ask, so the database is queried at most this often. */
const validForMs = 1000
const answersWithinMs = 2000

type HealthParts = { askStore: () => Promise<unknown>; clock: Clock; log: Log }

export class ServerHealth {
  readonly #parts: HealthParts
  #isClosing = false
  #check: { at: number; done: Promise<void> } | undefined
  /** When the first check failed since the database last answered; undefined: the last check succeeded. */
  #failedSince: number | undefined

  constructor(parts: HealthParts) {
    this.#parts = parts
  }

  /** Tells load balancers from now on to use other servers. */
  close(): void {
    this.#isClosing = true
  }

  /** Undefined if this process serves. */
  whyNotServing(): string | undefined {
    return this.#isClosing ? 'The server is closing.' : undefined
  }

  /**
   * Undefined if the database answers. A caller that cannot wait for a check of the database gets the result of
   * the check before after `waitMs`.
   */
  async databaseProblem(waitMs?: number): Promise<string | undefined> {
    const { clock } = this.#parts
    const now = clock.now()
    if (!this.#check || now - this.#check.at >= validForMs) this.#check = { at: now, done: this.#ask(now) }
    const { done } = this.#check
    await (waitMs === undefined ? done : waitAtMost(clock, waitMs, done))
    if (this.#failedSince === undefined) return undefined
    return `cannot be reached since ${new Date(this.#failedSince).toISOString()}`
  }

  async #ask(now: number): Promise<void> {
    const { askStore, log } = this.#parts
    const wasUnreachable = this.#failedSince !== undefined
    try {
      await withDeadline(answersWithinMs, 'the database did not answer in time', async () => askStore())
      this.#failedSince = undefined
      if (wasUnreachable) log.info({}, 'The database answers again.')
    } catch (error) {
      this.#failedSince ??= now
      if (!wasUnreachable) log.warn({ err: error }, 'The database cannot be reached.')
    }
  }
}
