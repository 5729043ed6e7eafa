/** What this process is doing to which sandbox right now, so that others can wait for it or call it off. */
type Work = { abort: AbortController; finished: Promise<void> }

export class OngoingWork {
  readonly #works = new Map<string, Set<Work>>()

  has(sandboxID: string): boolean {
    return this.#works.has(sandboxID)
  }

  /** The work is known from this call on, before its first step. */
  run<T>(sandboxID: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const outcome = Promise.resolve().then(() => work(abort.signal))
    const finished = outcome.then(
      () => {},
      () => {},
    )
    const mine: Work = { abort, finished }
    const works = this.#works.get(sandboxID) ?? new Set()
    this.#works.set(sandboxID, works.add(mine))
    return outcome.finally(() => {
      works.delete(mine)
      if (works.size === 0) this.#works.delete(sandboxID)
    })
  }

  /** Resolves once all that is under way now has ended, well or not. */
  async finished(sandboxID: string): Promise<void> {
    await Promise.all([...(this.#works.get(sandboxID) ?? [])].map(({ finished }) => finished))
  }

  /** Calls off all that is under way and waits until it has ended. */
  async cancel(sandboxID: string, reason: Error): Promise<void> {
    for (const { abort } of this.#works.get(sandboxID) ?? []) abort.abort(reason)
    await this.finished(sandboxID)
  }

  async allFinished(): Promise<void> {
    await Promise.all([...this.#works.keys()].map((sandboxID) => this.finished(sandboxID)))
  }
}
