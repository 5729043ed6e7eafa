/** Whether a command that is started now would find room for the processes that it starts itself. */
import { readdirSync } from 'node:fs'
import { type Clock, systemClock } from '../../lib/clock.ts'

/** A shell with its profile and a few pipes takes less. */
const roomOfCommand = 64
/** Processes are counted at most so often: a command that comes soon after another finds the same crowd. */
const countEveryMs = 500

export class ProcessRoom {
  readonly #limit: number
  readonly #count: () => number
  readonly #clock: Clock
  #seen = { at: Number.NEGATIVE_INFINITY, isShort: false }

  /** `limit` is what commands of one user may have. */
  constructor(limit: number, count: () => number = countProcesses, clock: Clock = systemClock) {
    this.#limit = limit
    this.#count = count
    this.#clock = clock
  }

  /** Counts those of all users: where most belong to another one, a command gets room that it does not need. */
  isShort(): boolean {
    const now = this.#clock.now()
    if (Math.abs(now - this.#seen.at) >= countEveryMs) {
      this.#seen = { at: now, isShort: this.#count() > this.#limit - roomOfCommand }
    }
    return this.#seen.isShort
  }
}

const countProcesses = (): number => readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length
