/** The files of one mounted volume. A sandbox may have written everything in it, so nothing is trusted. */
import {
  chmod,
  chown,
  constants,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readlink,
  rename,
  rm,
  unlink,
} from 'node:fs/promises'
import type {
  ChooseRange,
  EntryOwner,
  FileContent,
  VolumeEntry,
  VolumeFiles,
} from '../core/volume/volume-files.ts'
import { AppError } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { isMissing } from '../lib/if-present.ts'
import { type EntryOwners, entryOf } from './entry.ts'
import { asVolumeError } from './errors.ts'
import { FileStream } from './file-stream.ts'
import { listFolder } from './list-folder.ts'
import {
  type EntryLocation,
  entryPath,
  namesOf,
  openEntry,
  openedPath,
  openFolder,
  PathWalk,
} from './path-walk.ts'
import { removeTree } from './removal.ts'

export type VolumeFolders = {
  /** The folder that sandboxes see, opened as a path. */
  files: FileHandle
  /** On the same disk, where no sandbox sees it. */
  incoming: FileHandle
}

const usual = { uid: 1000, gid: 1000, fileMode: 0o644, folderMode: 0o755 }

export class VolumeContent implements VolumeFiles {
  readonly #folders: VolumeFolders
  readonly #owners: EntryOwners

  constructor(folders: VolumeFolders, owners: EntryOwners) {
    this.#folders = folders
    this.#owners = owners
  }

  stat(path: string): Promise<VolumeEntry> {
    return this.#atLocation(path, (at) => this.#describe(at, path))
  }

  change(path: string, owner: EntryOwner): Promise<VolumeEntry> {
    return this.#failing(path, () =>
      PathWalk.toEntry(this.#folders.files, path, async (entry) => {
        await this.#setOwner(openedPath(entry), owner)
        return entryOf(await entry.stat(), shownPath(path), this.#owners)
      }),
    )
  }

  async *list(path: string, depth: number): AsyncGenerator<VolumeEntry[]> {
    const folder = await this.#openListed(path)
    try {
      yield* listFolder(folder, shownPath(path), depth, this.#owners)
    } finally {
      await folder.close()
    }
  }

  makeFolder(path: string, owner: EntryOwner, parents: boolean): Promise<VolumeEntry> {
    const make = async (at: EntryLocation) => {
      await mkdir(entryPath(at), { mode: 0o700 })
      const made = await openFolder(entryPath(at))
      try {
        await this.#setOwner(openedPath(made), { ...usual, mode: usual.folderMode, ...owner })
      } finally {
        await made.close()
      }
    }
    const work = async (at: EntryLocation) => {
      if (at.name === '' && !parents) throw exists(path)
      const isThere = at.name === '' || (parents && (await this.#isFolder(at)))
      if (!isThere) await make(at)
      return this.#describe(at, path)
    }
    return this.#atLocation(path, work, parents ? make : undefined)
  }

  read(path: string, choose: ChooseRange): Promise<FileContent> {
    return this.#failing(path, () =>
      PathWalk.toEntry(this.#folders.files, path, async (entry) => {
        const found = await entry.stat()
        if (!found.isFile()) {
          const what = found.isDirectory() ? 'a folder' : 'neither a file nor a folder'
          throw new AppError('invalid_argument', `${JSON.stringify(path)} is ${what}, so it cannot be read`)
        }
        const file = await open(openedPath(entry), constants.O_RDONLY | constants.O_NONBLOCK)
        try {
          const { size } = await file.stat()
          const { start, length } = choose(size)
          return { size, start, length, stream: new FileStream(file, start, length) }
        } catch (error) {
          await file.close()
          throw error
        }
      }),
    )
  }

  write(
    path: string,
    content: AsyncIterable<Buffer>,
    owner: EntryOwner,
    replace: boolean,
  ): Promise<VolumeEntry> {
    return this.#atLocation(path, async (at) => {
      // Checked early, before all of the content has arrived; the last step detects changes made until then.
      await this.#assertWritable(at, path, replace)
      const whole = { folder: this.#folders.incoming, name: newUUID() }
      const file = await open(entryPath(whole), 'wx', 0o600)
      try {
        await file.writeFile(content)
        await this.#setOwner(openedPath(file), { ...usual, mode: usual.fileMode, ...owner })
        await file.datasync()
        if (replace) await rename(entryPath(whole), entryPath(at))
        else await link(entryPath(whole), entryPath(at))
        return entryOf(await file.stat(), shownPath(path), this.#owners)
      } finally {
        await file.close()
        await rm(entryPath(whole), { force: true })
      }
    })
  }

  remove(path: string): Promise<void> {
    return this.#atLocation(path, async (at) => {
      if (at.name === '') throw new AppError('invalid_argument', 'The root of a volume cannot be removed')
      if (await this.#isFolder(at)) await removeTree(entryPath(at), this.#folders.incoming)
      else await unlink(entryPath(at))
    })
  }

  #atLocation<T>(
    path: string,
    work: (at: EntryLocation) => Promise<T>,
    makeFolder?: (at: EntryLocation) => Promise<void>,
  ): Promise<T> {
    const options = makeFolder ? { makeFolder } : {}
    return this.#failing(path, () => PathWalk.toLocation(this.#folders.files, path, work, options))
  }

  async #failing<T>(path: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw asVolumeError(error, path)
    }
  }

  async #describe(at: EntryLocation, path: string): Promise<VolumeEntry> {
    const target = entryPath(at)
    const found = at.name === '' ? await at.folder.stat() : await lstat(target)
    const entry = entryOf(found, shownPath(path), this.#owners)
    return found.isSymbolicLink() ? { ...entry, target: await readlink(target) } : entry
  }

  /** False for a link to a folder. */
  async #isFolder(at: EntryLocation): Promise<boolean> {
    try {
      return (await lstat(entryPath(at))).isDirectory()
    } catch (error) {
      if (isMissing(error)) return false
      throw error
    }
  }

  async #assertWritable(at: EntryLocation, path: string, replace: boolean): Promise<void> {
    if (at.name === '' || (await this.#isFolder(at))) {
      throw new AppError('already_exists', `${JSON.stringify(path)} is a folder; choose another path`)
    }
    if (replace) return
    const entry = await openEntry(entryPath(at)).catch((error) => {
      if (!isMissing(error)) throw error
    })
    await entry?.close()
    if (entry) throw exists(path)
  }

  /** Sets the owner before the mode, because changing the owner clears bits of the mode. */
  async #setOwner(path: string, { uid, gid, mode }: EntryOwner): Promise<void> {
    // -1 leaves it unchanged.
    if (uid !== undefined || gid !== undefined) {
      await chown(path, this.#owners.toHost(uid), this.#owners.toHost(gid))
    }
    if (mode !== undefined) await chmod(path, mode)
  }

  async #openListed(path: string): Promise<FileHandle> {
    return this.#failing(path, () =>
      PathWalk.toEntry(this.#folders.files, path, async (entry) => {
        if (!(await entry.stat()).isDirectory()) {
          throw new AppError('invalid_argument', `${JSON.stringify(path)} is not a directory`)
        }
        return open(openedPath(entry), constants.O_RDONLY | constants.O_DIRECTORY)
      }),
    )
  }
}

const exists = (path: string) =>
  new AppError('already_exists', `${JSON.stringify(path)} exists already; force replaces a file`)

const shownPath = (path: string): string => `/${namesOf(path).join('/')}`
