/**
 * The remains of stopped sandboxes: their processes have ended, and their namespaces, disks and folders wait
 * to be removed. That takes as much CPU as a part of a start and nobody waits for it, so it is done when no
 * sandbox starts, and after some seconds in any case.
 */
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { JoinedWork } from '../../../lib/keyed-lock.ts'

type RemainsOptions = {
  /** Does not reject: a sandbox that could not be removed completely is still listed. */
  removeParts: (sandboxID: string) => Promise<void>
  /** Maximum number that may wait. */
  max: number
  clock?: Clock
}

/** Time without a start before remains are removed, because a new sandbox boots and then gets its first command. */
const quietAfterMs = 500
const longestMs = 10_000

export class SandboxRemains {
  readonly #options: RemainsOptions
  readonly #clock: Clock
  /** The time since when each waits, the longest first. */
  readonly #waiting = new Map<string, number>()
  readonly #leaving = new JoinedWork<void>()
  #startedAt = 0
  #cancelLook: (() => void) | undefined

  constructor(options: RemainsOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  has(sandboxID: string): boolean {
    return this.#waiting.has(sandboxID) || this.#leaving.get(sandboxID) !== undefined
  }

  /** Somebody waits for a sandbox, or for its first command. */
  noteStart(): void {
    this.#startedAt = this.#clock.now()
  }

  /** Resolves at once, unless the maximum number of remains waits and one must be removed first. */
  async add(sandboxID: string): Promise<void> {
    this.#waiting.set(sandboxID, this.#clock.now())
    this.#lookLater()
    for (const [first] of this.#waiting) {
      if (this.#waiting.size <= this.#options.max) return
      await this.finish(first)
    }
  }

  /** Removes it now, if it waits for that. */
  async finish(sandboxID: string): Promise<void> {
    if (!this.#waiting.delete(sandboxID)) return this.#leaving.get(sandboxID)
    await this.#leaving.run(sandboxID, () => this.#options.removeParts(sandboxID))
  }

  async finishAll(): Promise<void> {
    await Promise.all([...this.#waiting.keys(), ...this.#leaving.keys()].map((one) => this.finish(one)))
    this.#cancelLook?.()
    this.#cancelLook = undefined
  }

  #lookLater(): void {
    this.#cancelLook ??= this.#clock.after(quietAfterMs, () => void this.#look())
  }

  /** One after another: nobody waits for them. */
  async #look(): Promise<void> {
    for (let due = this.#due(); due !== undefined; due = this.#due()) await this.finish(due)
    this.#cancelLook = undefined
    if (this.#waiting.size > 0) this.#lookLater()
  }

  #due(): string | undefined {
    const [first] = this.#waiting
    if (!first) return undefined
    const [sandboxID, since] = first
    const now = this.#clock.now()
    // If a wall clock was set back, times in the future count as over.
    const isOver = (at: number, ms: number) => now < at || now - at >= ms
    return isOver(this.#startedAt, quietAfterMs) || isOver(since, longestMs) ? sandboxID : undefined
  }
}
