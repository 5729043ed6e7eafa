import { existsSync } from 'node:fs'
import { dirname } from 'node:path'

/** The nearest folder at or above this path that exists: the one on whose disk the path would lie. */
export function nearestFolder(path: string): string {
  return existsSync(path) ? path : nearestFolder(dirname(path))
}
