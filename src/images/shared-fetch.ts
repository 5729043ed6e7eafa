/**
 * Lets callers that need the same thing share one fetch. The fetch continues as long as one of them waits, so
 * that a caller who gives up does not take it from the others; a failure is only for the caller who started
 * it.
 */
export class SharedFetch<T> {
  readonly #running = new Map<string, { result: Promise<T>; abort: AbortController; waiters: number }>()
  /** Every fetch that has not ended, including aborted ones that still clean up. */
  readonly #unfinished = new Set<Promise<T>>()

  has(key: string): boolean {
    return this.#running.has(key)
  }

  async run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    for (;;) {
      signal.throwIfAborted()
      const running = this.#running.get(key)
      if (!running) return this.#wait(this.#start(key, work), key, signal)
      try {
        return await this.#wait(running, key, signal)
      } catch {
        // It may have failed for lack of credentials that this caller has.
        signal.throwIfAborted()
      }
    }
  }

  /** Resolves when every started fetch has ended. */
  async finished(): Promise<void> {
    await Promise.allSettled(this.#unfinished)
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<T>) {
    const abort = new AbortController()
    const started = { result: work(abort.signal), abort, waiters: 0 }
    const forget = () => {
      if (this.#running.get(key) === started) this.#running.delete(key)
      this.#unfinished.delete(started.result)
    }
    started.result.then(forget, forget)
    this.#unfinished.add(started.result)
    this.#running.set(key, started)
    return started
  }

  async #wait(
    running: { result: Promise<T>; abort: AbortController; waiters: number },
    key: string,
    signal: AbortSignal,
  ): Promise<T> {
    running.waiters++
    let stop = () => {}
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason)
      signal.addEventListener('abort', stop, { once: true })
    })
    try {
      return await Promise.race([running.result, aborted])
    } finally {
      signal.removeEventListener('abort', stop)
      if (--running.waiters === 0) {
        // Nobody may join a fetch that is being aborted.
        if (this.#running.get(key) === running) this.#running.delete(key)
        running.abort.abort(signal.reason)
      }
    }
  }
}
