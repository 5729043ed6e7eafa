/** The only source of time. Times are integer milliseconds since 1970; a test turns its own clock by hand. */
export interface Clock {
  now(): number
  /** Runs `action` once after `delayMs`; the returned function cancels it. Never keeps the process alive. */
  after(delayMs: number, action: () => void): () => void
}

export const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, Math.min(Math.max(0, delayMs), longestTimerMs))
    timer.unref()
    return () => clearTimeout(timer)
  },
}

/**
 * A monotonic clock for durations, in milliseconds with fractions. It avoids the global `performance`, because its first use
 * loads eight modules of Node, which would delay the boot of an agent.
 */
export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1e6
}

/** A clock for tests: time moves only when `advance` is called, and due actions run in order. */
export class ManualClock implements Clock {
  #now: number
  #pending: { at: number; action: () => void }[] = []

  constructor(startMs = 1_700_000_000_000) {
    this.#now = startMs
  }

  now(): number {
    return this.#now
  }

  after(delayMs: number, action: () => void): () => void {
    const entry = { at: this.#now + Math.max(0, delayMs), action }
    this.#pending.push(entry)
    return () => {
      this.#pending = this.#pending.filter((other) => other !== entry)
    }
  }

  /** Number of actions that are neither due nor cancelled. */
  get pendingCount(): number {
    return this.#pending.length
  }

  advance(ms: number): void {
    const until = this.#now + ms
    for (;;) {
      const due = this.#pending.filter((entry) => entry.at <= until).sort((a, b) => a.at - b.at)[0]
      if (!due) break
      this.#pending = this.#pending.filter((entry) => entry !== due)
      this.#now = Math.max(this.#now, due.at)
      due.action()
    }
    this.#now = until
  }
}

/** Waits on this clock, or until `signal` aborts (then rejects with its reason). */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = () => {
      cancel()
      reject(signal?.reason)
    }
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', abort)
      resolve()
    })
    signal?.addEventListener('abort', abort, { once: true })
  })
}

/** Waits for the work, but not for longer than this; the work goes on. Rejects if the work does so in time. */
export async function waitAtMost(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<void>()
  const cancel = clock.after(ms, late.resolve)
  await Promise.race([work, late.promise]).finally(cancel)
}

/** Waits on the real clock, or until `signal` aborts (then rejects with its reason). */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', abort, { once: true })
  })
}
