import { ManualClock } from '../../src/lib/clock.ts'

/** A clock that somebody also sets: the time of day jumps, and what waits for a span of time does not notice. */
export class JumpingClock extends ManualClock {
  #offsetMs = 0

  override now(): number {
    return super.now() + this.#offsetMs
  }

  /** Forth, or back with a negative span. */
  jump(ms: number): void {
    this.#offsetMs += ms
  }
}
