/** Ends or pauses sandboxes when their time is over: one timer over one query. */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { SandboxStore } from '../stores.ts'
import type { SandboxEnder } from './ender.ts'
import type { OngoingWork } from './ongoing-work.ts'
import type { Pauser } from './pauser.ts'
import type { Sandbox } from './sandbox.ts'

const longestSleepMs = 60_000
const mostAtOnce = 50
const retryAfterMs = 1000
/** Snapshots of memory load disk and CPU; a sandbox that is due later is paused as soon as one of these is done. */
const mostPausesAtOnce = 8
/** Between two looks at what is due. */
const shortestSleepMs = 50

export type ExpiryParts = {
  sandboxes: SandboxStore
  ender: SandboxEnder
  pauser: Pauser
  ongoing: OngoingWork
  clock: Clock
  log: Log
}

export class Expiry {
  readonly #parts: ExpiryParts
  #cancel: (() => void) | undefined
  #armedFor = Number.POSITIVE_INFINITY
  #closed = false
  #pausing = 0

  constructor(parts: ExpiryParts) {
    this.#parts = parts
  }

  /** Some sandbox now ends at `at`: wake no later than that. */
  arm(at: number): void {
    const { clock } = this.#parts
    if (this.#closed || at >= this.#armedFor) return
    this.#cancel?.()
    this.#armedFor = at
    const delayMs = Math.min(Math.max(0, at - clock.now()), longestSleepMs)
    this.#cancel = clock.after(delayMs, () => void this.#fire())
  }

  /** To be called once the rows may have changed behind the timer's back. */
  async armNext(): Promise<void> {
    const next = await this.#parts.sandboxes.nextEnd()
    if (next !== undefined) this.arm(next)
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  async #fire(): Promise<void> {
    this.#armedFor = Number.POSITIVE_INFINITY
    const next = await this.#expireDue()
    this.arm(Math.min(next ?? Number.POSITIVE_INFINITY, this.#parts.clock.now() + longestSleepMs))
  }

  /** Returns when the next end comes. */
  async #expireDue(): Promise<number | undefined> {
    const { sandboxes, clock, log } = this.#parts
    try {
      const due = await sandboxes.listExpired(clock.now(), mostAtOnce)
      const outcomes = await Promise.allSettled(due.map((row) => this.#expire(row)))
      const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
      for (const { reason } of failed)
        log.error({ err: reason }, 'A sandbox whose time is over could not be ended.')
      const next = await sandboxes.nextEnd()
      // What is still due is being ended; the later look is for the case that it was not.
      return next && Math.max(next, clock.now() + (failed.length > 0 ? retryAfterMs : shortestSleepMs))
    } catch (error) {
      log.error({ err: error }, 'The expiry could not read the store; it tries again.')
      return clock.now() + retryAfterMs
    }
  }

  async #expire(row: Sandbox): Promise<void> {
    if (row.options.autoPause) this.#pause(row)
    else await this.#parts.ender.endAsSeen(row, 'timeout')
  }

  /** A pause takes as long as it takes: the ends of others must not wait for it. */
  #pause(row: Sandbox): void {
    const { pauser, ongoing, log } = this.#parts
    const { sandboxID, options } = row
    if (ongoing.has(sandboxID) || this.#pausing >= mostPausesAtOnce) return
    this.#pausing++
    const pause = { memory: options.autoPauseMemory, requireHealthyAgent: false, isAutomatic: true }
    pauser
      .pause(row, pause)
      .catch((error) => {
        log.error({ sandboxID, err: error }, 'A sandbox whose time is over could not be paused.')
      })
      .finally(() => {
        this.#pausing--
      })
  }
}
