import { isAbsolute, join, resolve } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import type { Account } from './accounts.ts'

/** `~` and relative paths start at the user's home; an empty path is the default working directory. */
export function resolvePath(path: string, account: Account, defaultWorkdir: string): string {
  if (path.includes('\0')) {
    throw new AppError('invalid_argument', 'the path holds a zero byte: give a path without it')
  }
  if (path === '') return resolve('/', defaultWorkdir || account.home)
  if (path === '~' || path.startsWith('~/')) return resolve(join('/', account.home, path.slice(1)))
  return isAbsolute(path) ? resolve(path) : resolve('/', account.home, path)
}
