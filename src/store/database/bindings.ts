import { AppError } from '../../lib/app-error.ts'

export type Binding = null | number | bigint | string | Uint8Array

/**
 * Accepts only values that both engines store alike. node:sqlite writes NULL for a Date, an object or NaN,
 * and pg turns them into its own text; PostgreSQL allows no NUL in texts.
 */
export function checkBinding(value: unknown): Binding {
  if (typeof value === 'string') {
    if (!value.includes('\0')) return value
    throw new AppError('invalid_argument', 'Texts must not contain the NUL character; leave it out')
  }
  if (value === null || typeof value === 'bigint' || Number.isFinite(value)) return value as Binding
  if (value instanceof Uint8Array) return value
  const kind = value instanceof Object ? value.constructor.name : String(value)
  throw new AppError(
    'internal',
    `The store was asked to bind ${kind}; only null, numbers, texts and bytes fit`,
  )
}
