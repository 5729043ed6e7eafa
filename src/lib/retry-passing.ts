import { isAppError } from './app-error.ts'
import { type Clock, sleep } from './clock.ts'

const retryAfterMs = [50, 200, 800, 2000]

/**
 * Tries a step that was rejected as `unavailable` again, a few times, unless it failed only after a long wait. `attempt` counts from 0; after the first one it
 * is unknown whether an earlier one took effect.
 */
export async function retryPassing<T>(clock: Clock, step: (attempt: number) => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await step(attempt)
    } catch (error) {
      const waitMs = retryAfterMs[attempt]
      if (!isAppError(error, 'unavailable') || error.hasWaited || waitMs === undefined) throw error
      await sleep(clock, waitMs)
    }
  }
}
