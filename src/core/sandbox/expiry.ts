/**
 * Ends or pauses sandboxes when their timeout is over: one timer over two queries, one for kills and one for
 * pauses.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { RetryDelays } from '../../lib/retry-delays.ts'
import type { Sandbox } from './row/sandbox.ts'
import type { ExpiryKind, SandboxReader } from './row/sandbox-store.ts'
import type { SandboxTurns } from './row/sandbox-turns.ts'
import type { SandboxEnder } from './verbs/ender.ts'
import type { Pauser } from './verbs/pauser.ts'

const longestSleepMs = 60_000
const maxAtOnce = 50
/** How often due sandboxes are queried that wait for something: their turn, a free slot or their next try. */
const lookAgainMs = 1000
/** A sandbox whose time is over costs its team as long as it runs. */
const endRetries = { firstMs: 1000, longestMs: 5000 }
const pauseRetries = { firstMs: 1000, longestMs: 60_000 }
/** Snapshots of memory load disk and CPU. Further sandboxes are paused as soon as one of these is done. */
const maxPausesAtOnce = 8
/** Minimum time between two queries for due sandboxes. */
const shortestSleepMs = 50

type ExpiryParts = {
  sandboxes: Pick<SandboxReader, 'listExpired' | 'nextEnd'>
  turns: SandboxTurns
  ender: SandboxEnder
  pauser: Pauser
  clock: Clock
  log: Log
}

export class Expiry {
  readonly #parts: ExpiryParts
  #cancel: (() => void) | undefined
  #armedFor = Number.POSITIVE_INFINITY
  #closed = false
  #pausing = 0
  /** By sandbox. */
  readonly #endDelays = new RetryDelays(endRetries)
  readonly #pauseDelays = new RetryDelays(pauseRetries)
  readonly #readDelays = new RetryDelays(endRetries)

  constructor(parts: ExpiryParts) {
    this.#parts = parts
  }

  /** Makes the timer fire at `at` or earlier, because some sandbox ends then. */
  arm(at: number): void {
    const { clock } = this.#parts
    if (this.#closed || at >= this.#armedFor) return
    this.#cancel?.()
    this.#armedFor = at
    const delayMs = Math.min(Math.max(0, at - clock.now()), longestSleepMs)
    this.#cancel = clock.after(delayMs, () => void this.#fire())
  }

  /** Call it when rows may have changed without the timer's knowledge. */
  async armNext(): Promise<void> {
    const { sandboxes } = this.#parts
    for (const kind of ['kill', 'pause'] as const) {
      const next = await sandboxes.nextEnd(kind)
      if (next !== undefined) this.arm(next)
    }
  }

  close(): void {
    this.#closed = true
    this.#cancel?.()
  }

  async #fire(): Promise<void> {
    const { clock, log } = this.#parts
    this.#armedFor = Number.POSITIVE_INFINITY
    let next: number
    try {
      // Kills are queried separately, so that they do not wait behind pauses that wait for a free slot.
      next = Math.min(await this.#killDue(), await this.#pauseDue())
      this.#readDelays.noteSuccess('store')
    } catch (error) {
      log.error({ err: error }, 'The expiry could not read the store; it tries again.')
      next = this.#readDelays.noteFailure('store', clock.now())
    }
    this.arm(Math.min(next, clock.now() + longestSleepMs))
  }

  /** Returns when to query again. */
  async #killDue(): Promise<number> {
    const { sandboxes, clock } = this.#parts
    const due = await sandboxes.listExpired(clock.now(), 'kill', maxAtOnce + this.#endDelays.size)
    const begun = await Promise.all(
      // The query may return a row of an older version whose options say that it is paused instead.
      due.map((row) => (row.options.autoPause ? this.#pauseIfFree(row) : this.#end(row))),
    )
    return this.#nextLook('kill', begun.includes(false))
  }

  /** False if it failed, lately or now. */
  async #end(row: Sandbox): Promise<boolean> {
    const { ender, clock, log } = this.#parts
    const { sandboxID } = row
    if (this.#endDelays.mustWait(sandboxID, clock.now())) return false
    try {
      await ender.beginAsSeen(row, 'timeout')
      this.#endDelays.noteSuccess(sandboxID)
      return true
    } catch (error) {
      this.#endDelays.noteFailure(sandboxID, clock.now())
      log.error({ sandboxID, err: error }, 'A sandbox whose time is over could not be ended.')
      return false
    }
  }

  /**
   * Returns when to query again. While all pause slots are taken, the end of a pause starts the next query.
   */
  async #pauseDue(): Promise<number> {
    const { sandboxes, clock } = this.#parts
    if (this.#pausing >= maxPausesAtOnce) return Number.POSITIVE_INFINITY
    const due = await sandboxes.listExpired(clock.now(), 'pause', maxAtOnce + this.#pauseDelays.size)
    let isSkipped = false
    for (const row of due) {
      if (this.#pausing >= maxPausesAtOnce) return Number.POSITIVE_INFINITY
      if (!this.#pauseIfFree(row)) isSkipped = true
    }
    return this.#nextLook('pause', isSkipped)
  }

  /** False if all pause slots are taken, something else holds the sandbox's turn, or its pause has failed lately. */
  #pauseIfFree(row: Sandbox): boolean {
    const { turns, clock } = this.#parts
    if (this.#pausing >= maxPausesAtOnce || turns.has(row.sandboxID)) return false
    if (this.#pauseDelays.mustWait(row.sandboxID, clock.now())) return false
    void this.#pause(row)
    return true
  }

  async #nextLook(kind: ExpiryKind, isAnyLeft: boolean): Promise<number> {
    const { sandboxes, clock } = this.#parts
    const next = await sandboxes.nextEnd(kind)
    // Due sandboxes are being handled already; the later query is a safeguard in case they are not.
    const soonest = clock.now() + (isAnyLeft ? lookAgainMs : shortestSleepMs)
    return next === undefined ? Number.POSITIVE_INFINITY : Math.max(next, soonest)
  }

  /** Runs in the background, because other expiries must not wait for a long pause. */
  async #pause(seen: Sandbox): Promise<void> {
    const { turns, pauser, clock, log } = this.#parts
    const { sandboxID } = seen
    this.#pausing++
    try {
      await turns.acquire(sandboxID, async ({ row, signal }) => {
        const isDue = row?.state === 'running' && row.options.autoPause && row.endAt <= clock.now()
        if (!isDue) return
        const { autoPauseMemory: memory } = row.options
        await pauser.pause(row, { memory, requireHealthyAgent: false, isAutomatic: true }, signal)
      })
      this.#pauseDelays.noteSuccess(sandboxID)
    } catch (error) {
      this.#pauseDelays.noteFailure(sandboxID, clock.now())
      log.error({ sandboxID, err: error }, 'A sandbox whose time is over could not be paused.')
    } finally {
      this.#pausing--
      this.arm(clock.now() + shortestSleepMs)
    }
  }
}
