import { AppError } from '../../lib/app-error.ts'

export const refuse = (message: string) => new AppError('invalid_argument', message)
