import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { AppError } from '../../lib/app-error.ts'

/** Where a program lies, searched as the shell would; a request for one that is not there must fail at once. */
export function searchExecutable(name: string, searchPath: string, cwd: string): string {
  const candidates = name.includes('/')
    ? [resolve(cwd, name)]
    : searchPath.split(':').map((folder) => resolve(cwd, folder, name))
  const found = candidates.find(isExecutable)
  if (found === undefined) {
    throw new AppError('invalid_argument', `'${name}' could not be started: no such program`)
  }
  return found
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
