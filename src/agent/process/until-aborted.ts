/** Waits for `work`, but no longer than until the signal aborts; the work itself goes on. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** Runs one thing after another, in the order asked for, also when one of them fails or is given up. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  async run(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#last
    const mine = Promise.withResolvers<void>()
    this.#last = before.then(() => mine.promise)
    try {
      await untilAborted(before, signal)
      await work()
    } finally {
      mine.resolve()
    }
  }
}
