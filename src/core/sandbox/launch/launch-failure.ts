/** The errors of a failed launch. */
import { AppError, isAppError, shownText } from '../../../lib/app-error.ts'
import type { DriverHandle } from '../../ports/driver.ts'
import { createFailed } from '../row/errors.ts'

/** A launch failed and its sandbox could not be stopped, so it may still exist. */
export class LaunchLeftover extends AppError {
  readonly handle: DriverHandle

  constructor(handle: DriverHandle, failure: AppError, stopFailure: unknown) {
    const { code, message, cause, slug, retry } = failure
    super(code, message, {
      cause: new AggregateError(
        [cause ?? failure, stopFailure],
        `${message}; it could not be stopped either`,
      ),
      ...(slug !== undefined && { slug }),
      ...(retry !== undefined && { retry }),
    })
    this.handle = handle
  }
}

export function asCreateError(error: unknown): AppError {
  if (isAppError(error) && error.code !== 'internal') return error
  return createFailed(error, shownText(error))
}
