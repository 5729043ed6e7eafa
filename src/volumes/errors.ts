import { AppError, type ErrorCode, isAppError } from '../lib/app-error.ts'

/** Maps file system errors to messages about the requested path. */
const meanings: Partial<Record<string, { code: ErrorCode; says: string }>> = {
  ENOENT: { code: 'not_found', says: 'does not exist' },
  ENOTDIR: { code: 'not_found', says: 'leads through something that is not a folder' },
  EEXIST: { code: 'already_exists', says: 'exists already; force replaces a file' },
  EISDIR: { code: 'already_exists', says: 'is a folder; choose another path' },
  ENOTEMPTY: { code: 'conflict', says: 'is being written to; try again' },
  ENAMETOOLONG: { code: 'invalid_argument', says: 'has a name of more than 255 bytes' },
  ELOOP: { code: 'invalid_argument', says: 'leads through a symbolic link that changes; try again' },
  ENOSPC: { code: 'no_space', says: 'does not fit: the volume is full' },
  EROFS: { code: 'unavailable', says: 'cannot be changed: the volume was damaged and is read-only' },
}

export function asVolumeError(error: unknown, path: string): unknown {
  if (isAppError(error)) return error
  const meaning = meanings[(error as NodeJS.ErrnoException).code ?? '']
  if (!meaning) return error
  return new AppError(meaning.code, `Path ${JSON.stringify(path)} ${meaning.says}`, { cause: error })
}
