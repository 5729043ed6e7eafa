/**
 * Limits how many tiny pieces of bodies are carried in a second. Each costs as much work as a large one, so a peer that
 * sends single bytes as chunks of their own could otherwise take the whole process.
 */
import type { Clock } from '../clock.ts'

/** Only pieces below this size count. */
export const tinyBytes = 256
const piecesPerSecond = 20_000

/** One pacer serves all bodies of a peer. */
export class ChunkPacer {
  readonly #clock: Clock
  /** The time at which all pieces so far would have been sent at the allowed rate. */
  #paidUntilMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns the milliseconds for which to read nothing. Calls `resume` after that, unless it is 0. */
  spend(pieces: number, resume: () => void): number {
    const now = this.#clock.now()
    this.#paidUntilMs = Math.max(this.#paidUntilMs, now) + (pieces * 1000) / piecesPerSecond
    const waitMs = Math.floor(this.#paidUntilMs - now)
    if (waitMs > 0) this.#clock.after(waitMs, resume)
    return waitMs
  }
}
