/** Cursors of lists: opaque to clients, bound to the order of their list. */
import { AppError } from '../lib/app-error.ts'

type Cursor = { at: number; id: string }
export type Order = 'asc' | 'desc'

export function encodeCursor(cursor: Cursor, order: Order): string {
  const parts = [new Date(cursor.at).toISOString(), cursor.id, ...(order === 'asc' ? ['asc'] : [])]
  return Buffer.from(parts.join('__')).toString('base64url')
}

export function decodeCursor(token: string, order: Order): Cursor {
  const invalid = new AppError(
    'invalid_argument',
    'Invalid next token: use the X-Next-Token of the page before',
  )
  const [time = '', id = '', direction, ...rest] = Buffer.from(token, 'base64url').toString().split('__')
  const at = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(time) ? Date.parse(time) : Number.NaN
  if (Number.isNaN(at) || !/^[a-z0-9_-]+$/.test(id) || rest.length > 0) throw invalid
  if ((direction ?? 'desc') !== order) throw invalid
  return { at, id }
}

/**
 * Returns the page and, if `rows` holds one more than the limit, its last row, after which the next page
 * begins.
 */
export function cutPage<T>(rows: T[], limit: number): { page: T[]; last: T | undefined } {
  const page = rows.slice(0, limit)
  return { page, last: rows.length > limit ? page.at(-1) : undefined }
}
