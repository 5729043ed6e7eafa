/** What each run has sent since it was last asked. */

/** More runs than a machine has at a time; the one asked for longest ago is forgotten. */
const maxRuns = 20_000

export class SentBytes {
  readonly #startedAt: number
  /** By run, not by sandbox and not by the last list: a run may be missing from a list, or not be readable, and come back. */
  readonly #counted = new Map<string, number>()

  constructor(startedAt: number) {
    this.#startedAt = startedAt
  }

  /** An earlier process has counted what a run sent before this one started. */
  since(run: { runID: string; startedAt: number }, sentBytes: number): number {
    const { runID, startedAt } = run
    const before = this.#counted.get(runID) ?? (startedAt < this.#startedAt ? sentBytes : 0)
    this.#counted.delete(runID)
    this.#counted.set(runID, Math.max(before, sentBytes))
    if (this.#counted.size > maxRuns) this.#counted.delete(this.#counted.keys().next().value!)
    return Math.max(0, sentBytes - before)
  }
}
