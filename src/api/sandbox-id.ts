import { AppError } from '../lib/app-error.ts'

/** Accepts `{id}` and the older `{id}-{clientID}`; only the ID counts. */
export function parseSandboxID(text: string): string {
  const match = /^([a-z0-9]{1,64})(?:-[a-z0-9]+)?$/.exec(text)
  if (!match) throw new AppError('invalid_argument', 'Invalid sandbox ID')
  return match[1]!
}
