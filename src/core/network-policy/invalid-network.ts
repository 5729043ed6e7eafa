/** What a client said about the network of its sandbox cannot be carried out; the message says why. */
import { AppError } from '../../lib/app-error.ts'

export const invalidNetwork = (message: string) => new AppError('invalid_argument', message)
