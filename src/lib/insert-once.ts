import { isAppError } from './app-error.ts'
import type { Clock } from './clock.ts'
import { retryPassing } from './retry-passing.ts'

export type Insertion = {
  /** False: it was not inserted, because there are as many as there may be. */
  insert: () => Promise<boolean>
  /** Whether it is there, by an id that only this call knows. */
  isThere: () => Promise<boolean>
}

/**
 * Inserts something under an id that only this call knows, and tries again where the answer was lost. An earlier try may
 * have taken effect, or do so as late as in the middle of a later one, which then finds the name or the place taken: so
 * what is there by that id counts, and not the answer.
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
