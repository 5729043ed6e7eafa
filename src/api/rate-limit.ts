/** How many requests each team may make in a minute, told in the headers that clients know. */
import type { Clock } from '../lib/clock.ts'

const windowMs = 60_000
/** Windows that are over are forgotten as soon as there are this many; only teams that ask have one. */
const sweepAt = 1000

type Window = { endsAt: number; used: number }
type RateUse = { headers: Record<string, string>; isOver: boolean; resetSeconds: number }

export class RateLimit {
  readonly #limit: number
  readonly #clock: Clock
  readonly #windows = new Map<string, Window>()

  /** A limit of 0 is none. */
  constructor({ limit, clock }: { limit: number; clock: Clock }) {
    this.#limit = limit
    this.#clock = clock
  }

  /** Counts one request. Those over the limit are not counted, so that the next minute begins with all of it. */
  count(teamID: string): RateUse {
    if (this.#limit === 0) return { headers: {}, isOver: false, resetSeconds: 0 }
    const now = this.#clock.now()
    const window = this.#windowOf(teamID, now)
    const isOver = window.used >= this.#limit
    if (!isOver) window.used++
    const resetSeconds = Math.ceil((window.endsAt - now) / 1000)
    const headers = {
      'ratelimit-limit': String(this.#limit),
      'ratelimit-remaining': String(this.#limit - window.used),
      'ratelimit-reset': String(resetSeconds),
    }
    return { headers, isOver, resetSeconds }
  }

  #windowOf(teamID: string, now: number): Window {
    const known = this.#windows.get(teamID)
    // A clock that was set back must not lock anybody out for longer than a minute.
    if (known && known.endsAt > now && known.endsAt <= now + windowMs) return known
    if (this.#windows.size >= sweepAt) this.#sweep(now)
    const fresh = { endsAt: now + windowMs, used: 0 }
    this.#windows.set(teamID, fresh)
    return fresh
  }

  #sweep(now: number): void {
    for (const [id, { endsAt }] of this.#windows) if (endsAt <= now) this.#windows.delete(id)
  }
}
