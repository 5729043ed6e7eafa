import { AppError } from '../../../lib/app-error.ts'

export function parseBuildID(text: string, complaint: string): string {
  const id = text.toLowerCase()
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return id
  throw new AppError('invalid_argument', `${complaint}: '${text.slice(0, 64)}'`)
}
