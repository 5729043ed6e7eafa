import { AppError } from './app-error.ts'

/** Rejects with `deadline_exceeded` and the given message when `work` takes longer than `ms`. */
export async function withDeadline<T>(
  ms: number,
  message: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new AppError('deadline_exceeded', message)
      abort.abort(error)
      reject(error)
    }, ms)
  })
  try {
    return await Promise.race([work(abort.signal), expired])
  } finally {
    clearTimeout(timer)
  }
}
