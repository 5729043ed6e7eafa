import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Loop } from './loops.ts'

/**
 * Repeats work with a pause between the end of one round and the next, until the returned function is called. A problem is
 * logged once until a round succeeds or has another problem.
 */
export function repeat(loop: Loop, { clock, log }: { clock: Clock; log: Log }): () => Promise<void> {
  const { job } = loop
  let isClosed = false
  let round = Promise.resolve()
  let problem: string | undefined
  const report = (error: unknown) => {
    if (problem !== errorText(error)) log.error({ err: error }, `could not ${job}: ${errorText(error)}`)
    problem = errorText(error)
  }
  const next = () =>
    clock.after(loop.pauseMs, () => {
      round = loop
        .work()
        .then(() => {
          problem = undefined
        }, report)
        .then(() => {
          if (!isClosed) cancel = next()
        })
    })
  let cancel = next()
  return async () => {
    isClosed = true
    cancel()
    await round
  }
}
