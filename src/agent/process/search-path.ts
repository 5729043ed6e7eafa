import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { AppError } from '../../lib/app-error.ts'

/**
 * Finds the path of a program as the shell would. Whether a given path has a program shows when it is
 * started.
 */
export function searchExecutable(name: string, searchPath: string, cwd: string): string {
  if (name.includes('/')) return resolve(cwd, name)
  const candidates = searchPath.split(':').map((folder) => resolve(cwd, folder, name))
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
