/** Checks whether a command that starts now could start further processes itself. */
import { readdirSync } from 'node:fs'
import { type Clock, systemClock } from '../../lib/clock.ts'

/** A shell with its profile and a few pipes needs less. */
const processesOfCommand = 64
/** How often processes are counted: a command that comes soon after another finds the same number. */
const countEveryMs = 500

export class ProcessLimit {
  readonly #limit: number
  readonly #count: () => number
  readonly #clock: Clock
  #seen = { at: Number.NEGATIVE_INFINITY, isShort: false }

  /** `limit` is the limit for commands of one user. */
  constructor(limit: number, count: () => number = countProcesses, clock: Clock = systemClock) {
    this.#limit = limit
    this.#count = count
    this.#clock = clock
  }

  /**
   * Counts the processes of all users: if most belong to another user, a command gets headroom that it does
   * not need.
   */
  isShort(): boolean {
    const now = this.#clock.now()
    if (Math.abs(now - this.#seen.at) >= countEveryMs) {
      this.#seen = { at: now, isShort: this.#count() > this.#limit - processesOfCommand }
    }
    return this.#seen.isShort
  }
}

const countProcesses = (): number => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length
