/**
 * Resolves paths inside a folder with hostile content. Each step opens one name relative to an open folder,
 * without following links; the target of a link is resolved in the same way from the root of the walk.
 * Whatever others rename or replace meanwhile, no step leads outside.
 */
import { constants, type FileHandle, open, readlink } from 'node:fs/promises'
import { AppError } from '../lib/app-error.ts'
import { isMissing } from '../lib/if-present.ts'

/**
 * O_PATH: the descriptor stands for the entry and opens nothing, so that no fifo blocks and no device acts.
 */
const pathOnly = 0o10000000
const maxLinks = 40
const maxFolders = 128
const longestPath = 4096

/** An entry, given by its folder and name. An empty name is the folder itself. */
export type EntryLocation = { folder: FileHandle; name: string }

/** The path of an entry of an open folder; the name must be a single one. */
export const entryPath = ({ folder, name }: EntryLocation): string => `/proc/self/fd/${folder.fd}/${name}`

/** The path of an open entry. */
export const openedPath = ({ fd }: FileHandle): string => `/proc/self/fd/${fd}`

/** Opens the entry itself, even if it is a link. */
export const openEntry = (path: string | Buffer): Promise<FileHandle> =>
  open(path as string, pathOnly | constants.O_NOFOLLOW)

/** Rejects with ENOTDIR for anything but a folder, also for a link. */
export const openFolder = (path: string | Buffer): Promise<FileHandle> =>
  open(path as string, pathOnly | constants.O_NOFOLLOW | constants.O_DIRECTORY)

/** Splits a path into names, without empty ones and dots. */
export function namesOf(path: string): string[] {
  if (path.includes('\0') || Buffer.byteLength(path) > longestPath) {
    throw new AppError('invalid_argument', `Invalid path: use at most ${longestPath} bytes, and no NUL`)
  }
  return path.split('/').filter((name) => name !== '' && name !== '.')
}

type WalkOptions = {
  /** Creates a missing folder on the way. */
  makeFolder?: (at: EntryLocation) => Promise<void>
}

export class PathWalk {
  /** The root and the folders below it on the way. */
  readonly #folders: FileHandle[]
  readonly #options: WalkOptions
  #links = 0

  constructor(root: FileHandle, options: WalkOptions = {}) {
    this.#folders = [root]
    this.#options = options
  }

  /** Calls the work with the place of the path's last name; a link there is not followed. */
  static async toLocation<T>(
    root: FileHandle,
    path: string,
    work: (at: EntryLocation) => Promise<T>,
    options?: WalkOptions,
  ): Promise<T> {
    const walk = new PathWalk(root, options)
    try {
      return await work(await walk.#findLocation(namesOf(path)))
    } finally {
      await walk.#close()
    }
  }

  /** Calls the work with the path's target, links followed, opened like `openEntry` does. */
  static async toEntry<T>(
    root: FileHandle,
    path: string,
    work: (entry: FileHandle) => Promise<T>,
  ): Promise<T> {
    const walk = new PathWalk(root)
    try {
      await walk.#enter(namesOf(path))
      return await work(walk.#top)
    } finally {
      await walk.#close()
    }
  }

  get #top(): FileHandle {
    return this.#folders.at(-1)!
  }

  async #findLocation(names: string[]): Promise<EntryLocation> {
    const last = names.pop()
    await this.#enter(names)
    if (last === '..') await this.#leave()
    return { folder: this.#top, name: last === undefined || last === '..' ? '' : last }
  }

  /**
   * Afterwards the top of `#folders` is the target of the names. Only the last may be something other than a
   * folder.
   */
  async #enter(names: string[]): Promise<void> {
    const pending = [...names]
    for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
      if (name === '..') await this.#leave()
      else pending.unshift(...(await this.#step(name)))
    }
  }

  /** Enters the name, or returns the names in the target of a link. */
  async #step(name: string): Promise<string[]> {
    if (this.#folders.length > maxFolders) {
      throw new AppError('invalid_argument', `The path leads through more than ${maxFolders} folders`)
    }
    const at = { folder: this.#top, name }
    const entry = await this.#open(at)
    const isLink = await entry.stat().then(
      (found) => found.isSymbolicLink(),
      async (error) => {
        await entry.close()
        throw error
      },
    )
    if (!isLink) {
      this.#folders.push(entry)
      return []
    }
    await entry.close()
    if (++this.#links > maxLinks) {
      throw new AppError('invalid_argument', 'The path leads through too many symbolic links')
    }
    const target = await readlink(entryPath(at))
    if (target.startsWith('/')) while (this.#folders.length > 1) await this.#leave()
    return namesOf(target)
  }

  async #open(at: EntryLocation): Promise<FileHandle> {
    try {
      return await openEntry(entryPath(at))
    } catch (error) {
      if (!isMissing(error) || !this.#options.makeFolder) throw error
      await this.#options.makeFolder(at)
      return await openEntry(entryPath(at))
    }
  }

  async #leave(): Promise<void> {
    if (this.#folders.length > 1) await this.#folders.pop()!.close()
  }

  async #close(): Promise<void> {
    while (this.#folders.length > 1) await this.#leave()
  }
}
