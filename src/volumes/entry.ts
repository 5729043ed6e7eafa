import type { Stats } from 'node:fs'
import { posix } from 'node:path'
import type { VolumeEntry } from '../core/volume/volume-files.ts'
import { AppError } from '../lib/app-error.ts'

/**
 * Converts owners: on disk they lie in a range of the host's IDs; sandboxes and clients see them from 0 on.
 */
export class EntryOwners {
  readonly #first: number
  readonly #count = 65_536

  constructor(first: number) {
    this.#first = first
  }

  /** Returns -1 for an owner that is not given, which leaves the present one unchanged. */
  toHost(id: number | undefined): number {
    if (id === undefined) return -1
    if (id < this.#count) return this.#first + id
    throw new AppError('invalid_argument', `uid and gid are whole numbers below ${this.#count}`)
  }

  fromHost(id: number): number {
    const shown = id - this.#first
    return shown >= 0 && shown < this.#count ? shown : this.#count - 2
  }
}

export function entryOf(found: Stats, path: string, owners: EntryOwners): VolumeEntry {
  return {
    name: posix.basename(path) || '/',
    type: typeOf(found),
    path,
    size: found.size,
    mode: found.mode & 0o7777,
    uid: owners.fromHost(found.uid),
    gid: owners.fromHost(found.gid),
    atime: found.atimeMs,
    mtime: found.mtimeMs,
    ctime: found.ctimeMs,
  }
}

function typeOf(found: Stats): VolumeEntry['type'] {
  if (found.isFile()) return 'file'
  if (found.isDirectory()) return 'directory'
  return found.isSymbolicLink() ? 'symlink' : 'unknown'
}
