/** Counts the automatic pauses of each run, one after another, that could not keep its memory. */

/** A run that was not tried for this long begins anew: its time was extended meanwhile, or it ended. */
const forgetAfterMs = 600_000

export class MemoryTries {
  readonly #ofRun = new Map<string, { count: number; at: number }>()

  /** Returns the count with this one. */
  add(runID: string, now: number): number {
    for (const [known, { at }] of this.#ofRun) if (now - at > forgetAfterMs) this.#ofRun.delete(known)
    const count = (this.#ofRun.get(runID)?.count ?? 0) + 1
    this.#ofRun.set(runID, { count, at: now })
    return count
  }
}
