/**
 * Limits how many tiny pieces of bodies are carried in a second. Each costs as much work as a large one, so a peer that
 * sends single bytes as chunks of their own could otherwise take the whole process.
 */
import type { Clock } from '../clock.ts'

/** A piece below this many bytes counts. */
export const tinyBytes = 256
const piecesPerSecond = 20_000

/** One for all that a peer may send at once. */
export class ChunkPacer {
  readonly #clock: Clock
  /** When all pieces that were carried so far would have been sent at the allowed rate. */
  #paidUntilMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How long to read nothing more, in milliseconds; `resume` is called after that, unless it is 0. */
  spend(pieces: number, resume: () => void): number {
    const now = this.#clock.now()
    this.#paidUntilMs = Math.max(this.#paidUntilMs, now) + (pieces * 1000) / piecesPerSecond
    const waitMs = Math.floor(this.#paidUntilMs - now)
    if (waitMs > 0) this.#clock.after(waitMs, resume)
    return waitMs
  }
}
