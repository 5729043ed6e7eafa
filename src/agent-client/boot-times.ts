/**
 * Remembers how long agents take until they answer. A caller that waits for a boot can stay quiet for most of
 * that time: a failed attempt takes CPU here and even more in the sandbox.
 */

/** Number of recent boots to remember. */
const maxKnown = 16
const leftAlone = 0.6
const longestWaitMs = 500

export class BootTimes {
  readonly #knownMs: number[] = []

  add(ms: number): void {
    this.#knownMs.push(ms)
    if (this.#knownMs.length > maxKnown) this.#knownMs.shift()
  }

  /** Based on the shortest boot: a boot must not be noticed late because others were slow. */
  get waitMs(): number {
    return this.#knownMs.length === 0 ? 0 : Math.min(leftAlone * Math.min(...this.#knownMs), longestWaitMs)
  }
}
