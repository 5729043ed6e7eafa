/**
 * Clients are told that the database cannot be reached, and nothing of where it is. The cause has the rest: the
 * log shows it, and so does a start that fails.
 */
import { AppError, isAppError } from '../../lib/app-error.ts'

class DatabaseTrouble extends Error {}

export const databaseUnreachable = (detail: string, cause: unknown): AppError =>
  new AppError('unavailable', 'The database cannot be reached; try again in a moment.', {
    cause: new DatabaseTrouble(detail, { cause }),
    retry: { should: true, afterSeconds: 1 },
  })

/** The same error with its details, for the operator who starts a server. */
export function forOperator(error: unknown): unknown {
  if (!isAppError(error, 'unavailable') || !(error.cause instanceof DatabaseTrouble)) return error
  return new AppError('unavailable', error.cause.message, {
    cause: error.cause.cause,
    ...(error.retry && { retry: error.retry }),
  })
}
