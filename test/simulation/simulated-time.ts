/**
 * Time of a simulated machine. What has elapsed moves only when the scheduler says so; the wall clock may jump
 * besides. Timers go by what has elapsed, as those of a real process do.
 */
import type { Clock } from '../../src/lib/clock.ts'

const beginning = 1_700_000_000_000

type Timer = { at: number; action: () => void }

export class SimulatedTime {
  elapsedMs = 0

  /** By a clock that never jumps, such as that of the database. */
  now(): number {
    return beginning + this.elapsedMs
  }

  advance(ms: number): void {
    this.elapsedMs += ms
  }
}

/** The wall clock of one machine; it keeps running through crashes of the process. */
export class WallClock {
  readonly time: SimulatedTime
  skewMs = 0
  #latest = 0
  /** After each jump: when it was, and the time that it told then. */
  readonly #jumps: { elapsedMs: number; at: number }[] = []

  constructor(time: SimulatedTime) {
    this.time = time
  }

  jump(ms: number): void {
    this.#latest = this.latest()
    this.skewMs += ms
    this.#jumps.push({ elapsedMs: this.time.elapsedMs, at: this.now() })
  }

  /** The earliest time that it has told since then. */
  earliestSince({ elapsedMs, at }: { elapsedMs: number; at: number }): number {
    const jumped = this.#jumps.filter((jump) => jump.elapsedMs >= elapsedMs)
    return Math.min(at, this.now(), ...jumped.map((jump) => jump.at))
  }

  /** The latest time that it ever told: what was decided before a jump back may take effect after it. */
  latest(): number {
    return Math.max(this.#latest, this.now())
  }

  now(): number {
    return beginning + this.time.elapsedMs + this.skewMs
  }
}

/** What one life of a process sees of time. Its timers die with it. */
export class ProcessClock implements Clock {
  readonly #wall: WallClock
  #timers: Timer[] = []

  constructor(wall: WallClock) {
    this.#wall = wall
  }

  now(): number {
    return this.#wall.now()
  }

  after(delayMs: number, action: () => void): () => void {
    const timer = { at: this.#wall.time.elapsedMs + Math.max(0, delayMs), action }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  /** When the next timer is due, in elapsed milliseconds. */
  nextAt(): number | undefined {
    return this.#timers.reduce<number | undefined>((min, { at }) => Math.min(min ?? at, at), undefined)
  }

  /** Runs the timer that is due first, if one is. */
  fireDue(): boolean {
    const due = this.#timers
      .filter(({ at }) => at <= this.#wall.time.elapsedMs)
      .sort((one, other) => one.at - other.at)[0]
    if (!due) return false
    this.#timers = this.#timers.filter((timer) => timer !== due)
    due.action()
    return true
  }

  stop(): void {
    this.#timers = []
  }
}
