/**
 * Writes the entries of one layer into its own folder, in the form that overlayfs stacks: a device 0:0 marks
 * a removed name, and an attribute marks a folder that hides the layers below it. Synchronous: runs in a
 * worker.
 */
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  futimesSync,
  lchownSync,
  linkSync,
  lutimesSync,
  openSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { AppError } from '../lib/app-error.ts'
import { shown, type TarEntry } from '../lib/tar/tar-header.ts'
import type { TarHandler } from '../lib/tar/tar-reader.ts'
import { badLayer } from './bad-layer.ts'
import type { FileSystemCalls } from './file-system-calls.ts'
import { type FolderNode, isWhiteoutNode, joined, LayerTree, namesIn } from './layer-tree.ts'
import { opaqueXattr, storedXattrs } from './xattrs.ts'

export type LayerFacts = {
  entries: number
  /** The disk space of its files, in whole blocks. */
  bytes: number
  devicesLeftOut: number
  /** True if the layer hides everything in the layers below it. */
  opaqueRoot: boolean
}

type WriterOptions = { folder: string; ownerShift: number; maxEntries: number; calls: FileSystemCalls }

/** A sandbox maps this many IDs; an owner beyond them becomes the last one. */
const mappedIDs = 65_536
const diskBlock = 4096
/** In seconds: later than any file's time, and within the range of every file system. */
const latestTime = 2 ** 33
const whiteoutPrefix = '.wh.'
const opaqueName = '.wh..wh..opq'
const newFile = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

export class LayerWriter implements TarHandler {
  readonly facts: LayerFacts = { entries: 0, bytes: 0, devicesLeftOut: 0, opaqueRoot: false }
  readonly #options: WriterOptions
  readonly #tree: LayerTree
  #open: { file: number; entry: TarEntry; path: Buffer } | undefined

  constructor(options: WriterOptions) {
    this.#options = options
    this.#tree = new LayerTree(options.folder, (node, hidesBelow) => {
      this.#countEntry()
      this.#setImpliedAttributes(node, hidesBelow)
    })
    this.#setImpliedAttributes(this.#tree.root, false)
  }

  entry(entry: TarEntry): void {
    this.#countEntry()
    const names = namesIn(entry.path)
    const name = names.pop()
    if (name === undefined) this.#setRootAttributes(entry)
    else if (entry.kind === 'device') this.facts.devicesLeftOut++
    else this.#put(this.#tree.folderAt(names), name, entry)
  }

  /**
   * Also counts a folder that the archive names only as part of a path: one long path can make two thousand.
   */
  #countEntry(): void {
    if (++this.facts.entries <= this.#options.maxEntries) return
    const message = `A layer holds more than ${this.#options.maxEntries} entries, which is the limit of this server.`
    throw new AppError('payload_too_large', message)
  }

  #put(parent: FolderNode, name: string, entry: TarEntry): void {
    if (name.startsWith(whiteoutPrefix)) this.#hide(parent, name)
    else if (entry.kind === 'folder') this.#folder(parent, name, entry)
    else this.#nonFolder(parent, name, entry)
  }

  data(chunk: Buffer): void {
    if (!this.#open) return
    for (let at = 0; at < chunk.length; ) at += writeSync(this.#open.file, chunk, at, chunk.length - at)
  }

  fileEnd(): void {
    const open = this.#open
    if (!open) return
    this.#open = undefined
    const { file, entry, path } = open
    // In this order: a change of owner clears the mode's special bits and the capabilities.
    fchownSync(file, this.#owner(entry.uid), this.#owner(entry.gid))
    fchmodSync(file, entry.mode & 0o7777)
    this.#setXattrs(path, entry)
    futimesSync(file, timeOf(entry), timeOf(entry))
    closeSync(file)
    this.facts.bytes += Math.ceil(entry.size / diskBlock) * diskBlock
  }

  /** Sets the times of folders last, because every file that was put into them changed those. */
  finish(): LayerFacts {
    for (const { path, mtime } of this.#tree.folders()) {
      this.facts.bytes += diskBlock
      if (mtime !== undefined) utimesSync(this.#tree.absolute(path), mtime, mtime)
    }
    return this.facts
  }

  /** Closes the file that a failure left half written. */
  close(): void {
    if (this.#open) closeSync(this.#open.file)
    this.#open = undefined
  }

  #folder(parent: FolderNode, name: string, entry: TarEntry): void {
    const path = joined(parent, name)
    const found = this.#tree.look(path)
    const isThere = found?.isDirectory()
    if (found && !isThere) rmSync(this.#tree.absolute(path))
    const node = isThere ? this.#tree.folderAt(namesIn(path)) : this.#tree.makeFolder(parent, name)
    this.#setAttributes(node, entry)
    if (found && isWhiteoutNode(found)) this.#makeOpaque(node)
  }

  #nonFolder(parent: FolderNode, name: string, entry: TarEntry): void {
    const target = entry.kind === 'hardlink' ? this.#linkTarget(entry) : ''
    const path = joined(parent, name)
    // A link to itself changes nothing, and must not remove its own target.
    if (entry.kind === 'hardlink' && target === path) return
    if (this.#tree.look(path)) this.#tree.remove(parent, name)
    const absolute = this.#tree.absolute(path)
    if (entry.kind === 'hardlink') linkSync(this.#tree.absolute(target), absolute)
    else if (entry.kind === 'file')
      this.#open = { file: openSync(absolute, newFile, 0o600), entry, path: absolute }
    else this.#special(absolute, entry)
  }

  #special(path: Buffer, entry: TarEntry): void {
    if (entry.kind === 'symlink') {
      if (entry.target === '' || entry.target.includes('\0'))
        throw badLayer(`${shown(entry.path)} is a link without a target`)
      symlinkSync(Buffer.from(entry.target, 'latin1'), path)
    } else this.#options.calls.makeFifo(path)
    lchownSync(path, this.#owner(entry.uid), this.#owner(entry.gid))
    if (entry.kind === 'fifo') chmodSync(path, entry.mode & 0o7777)
    lutimesSync(path, timeOf(entry), timeOf(entry))
  }

  #linkTarget(entry: TarEntry): string {
    const names = namesIn(entry.target)
    const name = names.pop()
    const path = name === undefined ? '' : joined(this.#tree.folderAt(names), name)
    const found = this.#tree.look(path)
    if (!found || !(found.isFile() || found.isSymbolicLink() || found.isFIFO())) {
      throw badLayer(
        `${shown(entry.path)} is a hard link to ${shown(entry.target)}, which is not a file in the layer`,
      )
    }
    return path
  }

  /** Hides only the layers below: entries of this layer with the same name stay. */
  #hide(parent: FolderNode, name: string): void {
    if (name === opaqueName) {
      this.#makeOpaque(parent)
      return
    }
    const hidden = name.slice(whiteoutPrefix.length)
    // Names that the file system aufs reserves for itself.
    if (hidden.startsWith(whiteoutPrefix)) return
    if (hidden === '' || hidden === '.' || hidden === '..')
      throw badLayer(`${shown(name)} does not name anything to hide`)
    const path = joined(parent, hidden)
    const found = this.#tree.look(path)
    if (found?.isDirectory()) this.#makeOpaque(this.#tree.folderAt(namesIn(path)))
    if (found) return
    this.#options.calls.makeWhiteout(this.#tree.absolute(path))
    lchownSync(this.#tree.absolute(path), this.#owner(0), this.#owner(0))
  }

  #makeOpaque(node: FolderNode): void {
    // The kernel ignores the attribute on the root itself.
    if (node === this.#tree.root) this.facts.opaqueRoot = true
    else this.#options.calls.setXattr(this.#tree.absolute(node.path), opaqueXattr.name, opaqueXattr.value)
  }

  #setRootAttributes(entry: TarEntry): void {
    if (entry.kind !== 'folder') throw badLayer(`its own root is a ${entry.kind}`)
    this.#setAttributes(this.#tree.root, entry)
  }

  #setAttributes(node: FolderNode, entry: TarEntry): void {
    this.#ownFolder(node, entry.uid, entry.gid, entry.mode)
    this.#setXattrs(this.#tree.absolute(node.path), entry)
    node.mtime = timeOf(entry)
  }

  #setImpliedAttributes(node: FolderNode, hidesBelow: boolean): void {
    this.#ownFolder(node, 0, 0, 0o755)
    if (hidesBelow) this.#makeOpaque(node)
  }

  #ownFolder({ path }: FolderNode, uid: number, gid: number, mode: number): void {
    const absolute = this.#tree.absolute(path)
    lchownSync(absolute, this.#owner(uid), this.#owner(gid))
    chmodSync(absolute, mode & 0o7777)
  }

  #setXattrs(path: Buffer, entry: TarEntry): void {
    for (const [name, value] of storedXattrs(entry.xattrs, this.#options.ownerShift)) {
      try {
        this.#options.calls.setXattr(path, name, value)
      } catch (error) {
        // On a file system without attributes, the rest of the file is still written.
        if (!['ENOTSUP', 'EOPNOTSUPP'].includes(String((error as { code?: unknown }).code))) throw error
      }
    }
  }

  #owner(id: number): number {
    return this.#options.ownerShift + Math.min(Math.max(0, id), mappedIDs - 1)
  }
}

const timeOf = ({ mtime }: TarEntry): number => Math.min(Math.max(0, mtime), latestTime)
