import { isAppError } from './app-error.ts'
import type { Clock } from './clock.ts'
import { retryPassing } from './retry-passing.ts'

type Insertion = {
  /** Returns false if a limit is reached and nothing was inserted. */
  insert: () => Promise<boolean>
  /** True if the row exists, by an id that only this call knows. */
  isThere: () => Promise<boolean>
}

/**
 * True if a step of a store that rejected with this error found a reason not to take effect. Any other error leaves the outcome
 * unknown: the step may still take effect, even if a later look does not show it yet.
 */
export const isNotDone = (error: unknown): boolean =>
  isAppError(error) && error.code !== 'unavailable' && error.code !== 'internal'

/**
 * Inserts a row under an id that only this call knows, and tries again if the answer was lost. An earlier try may have taken
 * effect, or may do so in the middle of a later try, which then finds the name or the limit taken. So the row with that id
 * decides, and not the answer.
 */
export function insertOnce(clock: Clock, { insert, isThere }: Insertion): Promise<boolean> {
  return retryPassing(clock, async (attempt) => {
    if (attempt === 0) return insert()
    if (await isThere()) return true
    try {
      return (await insert()) || (await isThere())
    } catch (error) {
      if (isAppError(error, 'already_exists') && (await isThere())) return true
      throw error
    }
  })
}
