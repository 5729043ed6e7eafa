import { errorText } from '../lib/app-error.ts'
import type { Log } from '../lib/log.ts'

/**
 * Repeats work with a pause between the end of one round and the next, until the returned function is called. A problem is
 * logged once until a round succeeds or has another problem.
 */
export function repeatEvery(
  pauseMs: number,
  name: string,
  log: Log,
  work: () => Promise<unknown>,
): () => Promise<void> {
  let timer: NodeJS.Timeout | undefined
  let closed = false
  let round = Promise.resolve()
  let problem: string | undefined
  const tell = (error: unknown) => {
    if (problem !== errorText(error)) log.error({ err: error }, `could not ${name}: ${errorText(error)}`)
    problem = errorText(error)
  }
  const schedule = () => {
    timer = setTimeout(() => {
      round = work()
        .then(() => {
          problem = undefined
        }, tell)
        .finally(() => {
          if (!closed) schedule()
        })
    }, pauseMs)
  }
  schedule()
  return async () => {
    closed = true
    clearTimeout(timer)
    await round
  }
}
