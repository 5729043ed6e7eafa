/**
 * How long agents take until they answer. Whoever waits for one that boots can leave it alone for most of that time: to
 * ask in vain takes CPU here and, more of it, in the sandbox.
 */

/** So many of the last boots are known. */
const mostKnown = 16
const leftAlone = 0.6
const longestWaitMs = 500

export class BootTimes {
  readonly #knownMs: number[] = []

  add(ms: number): void {
    this.#knownMs.push(ms)
    if (this.#knownMs.length > mostKnown) this.#knownMs.shift()
  }

  /** By the shortest: a boot must not be noticed late because others were slow. */
  get waitMs(): number {
    return this.#knownMs.length === 0 ? 0 : Math.min(leftAlone * Math.min(...this.#knownMs), longestWaitMs)
  }
}
