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

const mostEntries = 1_000_000
const newFile = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** Names have one character per byte, as the reader of archives gives them. */
export class ArchiveWriter implements TarHandler {
  readonly #target: ArchiveTarget
  readonly #folder: string
  /** Links are made last, so that no entry can be written through one of them. */
  readonly #links: { names: string[]; target: string }[] = []
  #file: number | undefined
  #entries = 0
  #bytes = 0
  /** Devices and pipes, which are not copied. */
  leftOut = 0

  constructor(target: ArchiveTarget) {
    this.#target = target
    this.#folder = Buffer.from(target.folder).toString('latin1')
  }

  entry(entry: TarEntry): void {
    this.#entries += 1
    if (this.#entries > mostEntries) throw refusal(`the sandbox sent more than ${mostEntries} entries`)
    const names = this.#namesOf(entry)
    if (names.length === 0) return
    this.#makeFolders(names.slice(0, -1))
    const path = this.#pathOf(names)
    if (entry.kind === 'folder') this.#makeFolders(names, entry.mode)
    else if (entry.kind === 'symlink') this.#links.push({ names, target: entry.target })
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

  #namesOf({ path, kind }: TarEntry): string[] {
    const { fileName } = this.#target
    if (fileName === undefined) return namesIn(path)
    if (kind !== 'file' || this.#entries > 1) throw refusal('the sandbox sent something else than the file')
    return [Buffer.from(fileName).toString('latin1')]
  }

  #makeFolders(names: readonly string[], mode = 0o755): void {
    for (let count = 1; count <= names.length; count += 1) {
      const path = this.#pathOf(names.slice(0, count))
      const found = statOf(path)
      if (found?.isDirectory()) continue
      if (found) throw refusal(`${shown(names.slice(0, count).join('/'))} exists and is not a folder`)
      mkdirSync(path, { mode: (count === names.length ? mode & 0o777 : 0o755) | 0o700 })
    }
  }

  #link({ path: name, target }: TarEntry, path: Buffer): void {
    const original = this.#pathOf(namesIn(target))
    if (!statOf(original)?.isFile()) throw refusal(`${shown(name)} is a link to a file that was not copied`)
    this.#removeOld(path, name)
    linkSync(original, path)
  }

  #removeOld(path: Buffer, name: string): void {
    const found = statOf(path)
    if (found?.isDirectory()) throw refusal(`${shown(name)} exists and is a folder`)
    if (found) rmSync(path)
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
