/** How many sandboxes of one template were asked for within one stretch of time, at the busiest lately. */

const rememberMs = 5 * 60_000
/** More than any machine keeps ready. */
const mostRemembered = 1000

export class Demand {
  /** When each of the last creates came, the oldest first. */
  #times: number[] = []

  record(now: number): void {
    this.#times = [...this.#recent(now), now].slice(-mostRemembered)
  }

  /** The most creates that came within `lengthMs` of each other. */
  peak(now: number, lengthMs: number): number {
    const times = this.#recent(now)
    let first = 0
    let most = 0
    for (const [at, time] of times.entries()) {
      while (time - times[first]! > lengthMs) first++
      most = Math.max(most, at - first + 1)
    }
    return most
  }

  /** A wall clock that was set back leaves times in the future: they count as old. */
  #recent(now: number): number[] {
    return this.#times.filter((time) => time <= now && now - time < rememberMs)
  }
}
