/**
 * Writes an archive that comes from a sandbox into a folder of this machine. The archive is not trusted: nothing
 * is written outside of the folder, no owner, device or set-user-id bit is taken over, and the size is limited.
 */
import {
  closeSync,
  constants,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  type Stats,
  symlinkSync,
  writeSync,
} from 'node:fs'
import { AppError } from '../lib/app-error.ts'
import { shown, type TarEntry } from '../lib/tar/tar-header.ts'
import type { TarHandler } from '../lib/tar/tar-reader.ts'

export type ArchiveTarget = {
  folder: string
  /** The name that the only file of the archive gets; undefined: the archive is a tree. */
  fileName?: string
  maxBytes: number
}

export type ArchiveLimits = {
  /** Files, folders and links, also folders that only the name of another entry mentions. */
  entries: number
  /** Names and targets of symbolic links, which are in memory until the end. */
  linkBytes: number
}

const usualLimits: ArchiveLimits = { entries: 1_000_000, linkBytes: 64 * 2 ** 20 }
/** More than the header of an entry with the longest name and target, and what tar fills up with. */
const maxBytesPerEntry = 16 * 1024
/** More than what tar appends to an archive. */
const maxBytesAtEnd = 2 ** 20
const newFile = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** Names have one character per byte, as the reader of archives gives them. */
export class ArchiveWriter implements TarHandler {
  readonly #target: ArchiveTarget
  readonly #folder: string
  /** Links are made last, so that no entry can be written through one of them. */
  readonly #links: { names: string[]; target: string }[] = []
  #file: number | undefined
  readonly #limits: ArchiveLimits
  #entries = 0
  #bytes = 0
  #linkBytes = 0
  #receivedBytes = 0
  /** Devices and pipes, which are not copied. */
  leftOut = 0

  constructor(target: ArchiveTarget, limits = usualLimits) {
    this.#target = target
    this.#limits = limits
    this.#folder = Buffer.from(target.folder).toString('latin1')
  }

  entry(entry: TarEntry): void {
    this.#countEntry()
    const names = this.#namesOf(entry)
    if (names.length === 0 && entry.kind === 'folder') return
    if (names.length === 0) throw refusal('the sandbox sent an entry without a name')
    this.#makeFolders(names.slice(0, -1))
    const path = this.#pathOf(names)
    if (entry.kind === 'folder') this.#makeFolder(names, entry.mode)
    else if (entry.kind === 'symlink') this.#addLink(names, entry)
    else if (entry.kind === 'hardlink') this.#link(entry, path)
    else if (entry.kind === 'file') {
      this.#removeOld(path, entry.path)
      this.#file = openSync(path, newFile, entry.mode & 0o777)
    } else this.leftOut += 1
  }

  data(chunk: Buffer): void {
    this.#bytes += chunk.length
    const { maxBytes } = this.#target
    if (this.#bytes > maxBytes) {
      throw refusal(`it is larger than ${maxBytes / 2 ** 20} MiB; --max-mb allows more`)
    }
    for (let at = 0; at < chunk.length; ) at += writeSync(this.#file!, chunk, at)
  }

  fileEnd(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }

  /**
   * Call it for each piece of the archive, after it was read. Limits what is not the content of a file: headers that
   * no entry follows, and bytes after the end of the archive.
   */
  noteReceived(bytes: number): void {
    this.#receivedBytes += bytes
    const besideBytes = this.#receivedBytes - this.#bytes
    if (besideBytes > maxBytesAtEnd + maxBytesPerEntry * this.#entries)
      throw refusal('the sandbox sent much that belongs to no file')
  }

  /** Call it when the whole archive has been read. */
  finish(): void {
    for (const { names, target } of this.#links) {
      const path = this.#pathOf(names)
      this.#removeOld(path, names.join('/'))
      symlinkSync(Buffer.from(target, 'latin1'), path)
    }
  }

  /** Call it however the copy has ended. */
  close(): void {
    this.fileEnd()
  }

  #countEntry(): void {
    this.#entries += 1
    const { entries } = this.#limits
    if (this.#entries > entries) throw refusal(`the sandbox sent more than ${entries} files and folders`)
  }

  #addLink(names: string[], { path, target }: TarEntry): void {
    this.#linkBytes += path.length + target.length
    const { linkBytes } = this.#limits
    if (this.#linkBytes > linkBytes) throw refusal(`the sandbox sent links of more than ${linkBytes} bytes`)
    this.#links.push({ names, target })
  }

  #namesOf({ path, kind }: TarEntry): string[] {
    const { fileName } = this.#target
    if (fileName === undefined) return namesIn(path)
    if (kind !== 'file' || this.#entries > 1) throw refusal('the sandbox sent something else than the file')
    return [Buffer.from(fileName).toString('latin1')]
  }

  #makeFolders(names: readonly string[]): void {
    for (let count = 1; count <= names.length; count += 1)
      if (this.#makeFolder(names.slice(0, count), 0o755)) this.#countEntry()
  }

  /** False if it was there. */
  #makeFolder(names: readonly string[], mode: number): boolean {
    if (this.#hasFolder(names)) return false
    mkdirSync(this.#pathOf(names), { mode: (mode & 0o777) | 0o700 })
    return true
  }

  #link({ path: name, target }: TarEntry, path: Buffer): void {
    const names = namesIn(target)
    // A link in the folder from before the copy would lead out of it.
    for (let count = 1; count < names.length; count += 1) this.#hasFolder(names.slice(0, count))
    const original = this.#pathOf(names)
    if (!statOf(original)?.isFile()) throw refusal(`${shown(name)} is a link to a file that was not copied`)
    this.#removeOld(path, name)
    linkSync(original, path)
  }

  #removeOld(path: Buffer, name: string): void {
    const found = statOf(path)
    if (found?.isDirectory()) throw refusal(`${shown(name)} exists and is a folder`)
    if (found && !found.isFile() && !found.isSymbolicLink())
      throw refusal(`${shown(name)} exists and is neither a file nor a link`)
    if (found) rmSync(path)
  }

  /** False if there is nothing of this name. */
  #hasFolder(names: readonly string[]): boolean {
    const found = statOf(this.#pathOf(names))
    if (found && !found.isDirectory()) throw refusal(`${shown(names.join('/'))} exists and is not a folder`)
    return found !== undefined
  }

  #pathOf(names: readonly string[]): Buffer {
    return Buffer.from([this.#folder, ...names].join('/'), 'latin1')
  }
}

function namesIn(path: string): string[] {
  const names = path.split('/').filter((name) => name !== '' && name !== '.')
  if (names.includes('..') || path.includes('\0'))
    throw refusal(`the name ${shown(path)} leads out of the folder`)
  return names
}

function statOf(path: Buffer): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false })
}

const refusal = (why: string) => new AppError('unprocessable', `The copy was stopped: ${why}.`)
