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
