/** Runs work for one key strictly one after another; different keys do not wait for each other. */
export class KeyedLock {
  #tails = new Map<string, Promise<unknown>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const mine = before.then(work, work)
    const tail = mine.catch(() => {})
    this.#tails.set(key, tail)
    try {
      return await mine
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    }
  }
}

/** Callers that ask for the same key while the work is under way share its one promise. */
export class JoinedWork<T> {
  #running = new Map<string, Promise<T>>()

  run(key: string, work: () => Promise<T>): Promise<T> {
    const running = this.#running.get(key)
    if (running) return running
    const started = work().finally(() => this.#running.delete(key))
    this.#running.set(key, started)
    return started
  }

  get(key: string): Promise<T> | undefined {
    return this.#running.get(key)
  }

  keys(): string[] {
    return [...this.#running.keys()]
  }
}

type SharedWork<T> = { done: Promise<T>; abort: AbortController; callers: number }

/** Joined work that ends early when all its callers have given up. */
export class AbortableJoinedWork<T> {
  #running = new Map<string, SharedWork<T>>()

  /**
   * A caller that gives up does not wait for work that others still want. The last one waits until the aborted work has ended, so
   * that nothing is under way behind its back.
   */
  async run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    // Aborted work must end before it can begin again.
    for (
      let running = this.#running.get(key);
      running?.abort.signal.aborted;
      running = this.#running.get(key)
    )
      await running.done.catch(() => {})
    signal.throwIfAborted()
    const shared = this.#running.get(key) ?? this.#begin(key, work)
    shared.callers++
    return await new Promise<T>((resolve, reject) => {
      const giveUp = () => {
        shared.callers--
        if (shared.callers > 0) reject(signal.reason)
        else shared.abort.abort(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      shared.done.finally(() => signal.removeEventListener('abort', giveUp)).then(resolve, reject)
    })
  }

  #begin(key: string, work: (signal: AbortSignal) => Promise<T>): SharedWork<T> {
    const abort = new AbortController()
    const done = work(abort.signal).finally(() => this.#running.delete(key))
    const shared = { done, abort, callers: 0 }
    this.#running.set(key, shared)
    return shared
  }
}
