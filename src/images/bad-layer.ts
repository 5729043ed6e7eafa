import { AppError } from '../lib/app-error.ts'

export function badLayer(why: string): AppError {
  return new AppError('unprocessable', `A layer cannot be unpacked: ${why}.`)
}
