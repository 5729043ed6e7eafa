import { AppError } from '../lib/app-error.ts'

/**
 * The command has no exit code of its own. As with `docker run`, 125 means that its sandbox failed, 126 that it
 * could not be started, and 127 that there is no such program.
 */
export class CommandFailure extends AppError {
  readonly exitCode: 125 | 126 | 127

  constructor(message: string, exitCode: 125 | 126 | 127, options: { cause?: unknown } = {}) {
    super('unavailable', message, options)
    this.exitCode = exitCode
  }
}
