import { AppError } from './app-error.ts'
import type { Clock } from './clock.ts'

/** Real time that keeps the process alive until the deadline. */
const awakeClock: Pick<Clock, 'after'> = {
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs)
    return () => clearTimeout(timer)
  },
}

/** Rejects with `deadline_exceeded` and the given message when `work` takes longer than `ms`. */
export async function withDeadline<T>(
  ms: number,
  message: string,
  work: (signal: AbortSignal) => Promise<T>,
  clock: Pick<Clock, 'after'> = awakeClock,
): Promise<T> {
  const abort = new AbortController()
  let cancel = () => {}
  const expired = new Promise<never>((_, reject) => {
    cancel = clock.after(ms, () => {
      const error = new AppError('deadline_exceeded', message)
      abort.abort(error)
      reject(error)
    })
  })
  try {
    return await Promise.race([work(abort.signal), expired])
  } finally {
    cancel()
  }
}

/** Aborts with the given error after `ms` on this clock, unless it is cancelled before. */
export function deadlineSignal(
  clock: Pick<Clock, 'after'>,
  ms: number,
  error: () => Error,
): { signal: AbortSignal; cancel: () => void } {
  const abort = new AbortController()
  return { signal: abort.signal, cancel: clock.after(ms, () => abort.abort(error())) }
}
