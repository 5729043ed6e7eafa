/** The error for network options that cannot be applied; the message says why. */
import { AppError } from '../../lib/app-error.ts'

export const invalidNetwork = (message: string) => new AppError('invalid_argument', message)
