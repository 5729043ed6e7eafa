import { isAppError } from './app-error.ts'
import { type Clock, sleep } from './clock.ts'

const retryAfterMs = [50, 200, 800, 2000]
/** What failed only after this time is no passing failure, and its caller has waited long enough. */
const mostMs = 5000

/**
 * Tries a step that was rejected as `unavailable` again, a few times. `attempt` counts from 0; after the first one it
 * is unknown whether an earlier one took effect.
 */
export async function retryPassing<T>(clock: Clock, step: (attempt: number) => Promise<T>): Promise<T> {
  const startedAt = clock.now()
  for (let attempt = 0; ; attempt++) {
    try {
      return await step(attempt)
    } catch (error) {
      const waitMs = retryAfterMs[attempt]
      if (!isAppError(error, 'unavailable') || waitMs === undefined) throw error
      if (clock.now() - startedAt > mostMs) throw error
      await sleep(clock, waitMs)
    }
  }
}
