/** Ends or pauses sandboxes when their time is over: one timer over two queries, one for each kind of end. */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Sandbox } from './row/sandbox.ts'
import type { ExpiryKind, SandboxReader } from './row/sandbox-store.ts'
import type { SandboxTurns } from './row/sandbox-turns.ts'
import type { SandboxEnder } from './verbs/ender.ts'
import type { Pauser } from './verbs/pauser.ts'

const longestSleepMs = 60_000
const mostAtOnce = 50
const retryAfterMs = 1000
/** Snapshots of memory load disk and CPU; a sandbox that is due later is paused as soon as one of these is done. */
const mostPausesAtOnce = 8
/** Between two looks at what is due. */
const shortestSleepMs = 50

export type ExpiryParts = {
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
      // Kills are looked for apart: they do not wait behind pauses that wait for a place.
      next = Math.min(await this.#killDue(), await this.#pauseDue())
    } catch (error) {
      log.error({ err: error }, 'The expiry could not read the store; it tries again.')
      next = clock.now() + retryAfterMs
    }
    this.arm(Math.min(next, clock.now() + longestSleepMs))
  }

  /** Returns when to look again. */
  async #killDue(): Promise<number> {
    const { sandboxes, ender, clock, log } = this.#parts
    const due = await sandboxes.listExpired(clock.now(), 'kill', mostAtOnce)
    const outcomes = await Promise.allSettled(
      // A row of an older version may be listed here though its options say that it is paused.
      due.map((row) => (row.options.autoPause ? this.#pauseIfFree(row) : ender.beginAsSeen(row, 'timeout'))),
    )
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected')
    for (const { reason } of failed)
      log.error({ err: reason }, 'A sandbox whose time is over could not be ended.')
    return this.#nextLook('kill', failed.length > 0)
  }

  /** The same. While all places are taken, whoever leaves one looks again. */
  async #pauseDue(): Promise<number> {
    const { sandboxes, clock } = this.#parts
    if (this.#pausing >= mostPausesAtOnce) return Number.POSITIVE_INFINITY
    const due = await sandboxes.listExpired(clock.now(), 'pause', mostAtOnce)
    let isSkipped = false
    for (const row of due) {
      if (this.#pausing >= mostPausesAtOnce) return Number.POSITIVE_INFINITY
      if (!this.#pauseIfFree(row)) isSkipped = true
    }
    return this.#nextLook('pause', isSkipped)
  }

  /** False: all places are taken, or something else is done to it just now. */
  #pauseIfFree(row: Sandbox): boolean {
    if (this.#pausing >= mostPausesAtOnce || this.#parts.turns.has(row.sandboxID)) return false
    void this.#pause(row)
    return true
  }

  async #nextLook(kind: ExpiryKind, isAnyLeft: boolean): Promise<number> {
    const { sandboxes, clock } = this.#parts
    const next = await sandboxes.nextEnd(kind)
    // What is still due is on its way; the later look is for the case that it was not.
    const soonest = clock.now() + (isAnyLeft ? retryAfterMs : shortestSleepMs)
    return next === undefined ? Number.POSITIVE_INFINITY : Math.max(next, soonest)
  }

  /** A pause takes as long as it takes: the ends of others must not wait for it. */
  async #pause(seen: Sandbox): Promise<void> {
    const { turns, pauser, clock, log } = this.#parts
    const { sandboxID } = seen
    this.#pausing++
    try {
      await turns.take(sandboxID, async ({ row, signal }) => {
        const isDue = row?.state === 'running' && row.options.autoPause && row.endAt <= clock.now()
        if (!isDue) return
        const { autoPauseMemory: memory } = row.options
        await pauser.pause(row, { memory, requireHealthyAgent: false, isAutomatic: true }, signal)
      })
    } catch (error) {
      log.error({ sandboxID, err: error }, 'A sandbox whose time is over could not be paused.')
    } finally {
      this.#pausing--
      this.arm(clock.now() + shortestSleepMs)
    }
  }
}
