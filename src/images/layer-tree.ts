/**
 * The folders of one layer that is being written, by name. Nobody else writes there, so a known folder is a
 * real folder; everything else is checked first. No path with a link in it ever reaches the kernel: links on
 * the way are resolved here, within the layer, as container tools do.
 */
import { lstatSync, mkdirSync, readlinkSync, rmSync, type Stats } from 'node:fs'
import { AppError } from '../lib/app-error.ts'
import { shown } from '../lib/tar/tar-header.ts'
import { badLayer } from './bad-layer.ts'

export type FolderNode = {
  /** The path within the layer, one character per byte; '' is the layer itself. */
  path: string
  parent: FolderNode | undefined
  folders: Map<string, FolderNode>
  /** Set when everything is written, in seconds. */
  mtime: number | undefined
}

const maxLinks = 40
/** Every folder of the layer is in memory, with some 500 bytes and its name. */
const maxFolders = 500_000
export const longestPath = 4096
const longestPart = 255

export class LayerTree {
  readonly root: FolderNode = { path: '', parent: undefined, folders: new Map(), mtime: undefined }
  readonly #prefix: string
  #folderCount = 0
  readonly #onImplied: (node: FolderNode, replacesWhiteout: boolean) => void

  /** `onImplied` sets the owner and mode of a folder that the archive names only as part of a path. */
  constructor(layerFolder: string, onImplied: (node: FolderNode, replacesWhiteout: boolean) => void) {
    this.#prefix = Buffer.from(layerFolder).toString('latin1')
    this.#onImplied = onImplied
  }

  absolute(path: string): Buffer {
    return Buffer.from(path === '' ? this.#prefix : `${this.#prefix}/${path}`, 'latin1')
  }

  look(path: string): Stats | undefined {
    return lstatSync(this.absolute(path), { throwIfNoEntry: false })
  }

  /** Returns the real folder of these names, and creates missing folders. */
  folderAt(names: readonly string[]): FolderNode {
    const pending = [...names].reverse()
    let at = this.root
    let links = 0
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      if (name === '..') {
        at = at.parent ?? this.root
        continue
      }
      const known = at.folders.get(name)
      if (known) {
        at = known
        continue
      }
      const path = joined(at, name)
      const found = this.look(path)
      if (!found?.isSymbolicLink()) {
        at = this.#implied(at, name, found)
        continue
      }
      if (++links > maxLinks) throw badLayer(`${shown(path)} is a chain of too many links`)
      const target = readlinkSync(this.absolute(path), 'buffer').toString('latin1')
      if (target.startsWith('/')) at = this.root
      pending.push(...partsOf(target).reverse())
      if (pending.length > longestPath) throw badLayer(`${shown(path)} leads to a path that is too long`)
    }
    return at
  }

  #implied(parent: FolderNode, name: string, found: Stats | undefined): FolderNode {
    const path = joined(parent, name)
    const isWhiteout = found !== undefined && isWhiteoutNode(found)
    if (found && !isWhiteout) throw badLayer(`${shown(path)} is not a folder, but an entry belongs into it`)
    if (isWhiteout) rmSync(this.absolute(path))
    const node = this.makeFolder(parent, name)
    this.#onImplied(node, isWhiteout)
    return node
  }

  /** Nothing may exist under the name yet. */
  makeFolder(parent: FolderNode, name: string): FolderNode {
    if (++this.#folderCount > maxFolders) {
      throw new AppError('payload_too_large', `A layer makes more than ${maxFolders} folders.`)
    }
    const node: FolderNode = { path: joined(parent, name), parent, folders: new Map(), mtime: undefined }
    mkdirSync(this.absolute(node.path), 0o700)
    parent.folders.set(name, node)
    return node
  }

  remove(parent: FolderNode, name: string): void {
    rmSync(this.absolute(joined(parent, name)), { recursive: true, force: true })
    parent.folders.delete(name)
  }

  *folders(from: FolderNode = this.root): Generator<FolderNode> {
    const pending = [from]
    for (let node = pending.pop(); node; node = pending.pop()) {
      yield node
      for (const below of node.folders.values()) pending.push(below)
    }
  }
}

export const joined = (parent: FolderNode, name: string): string =>
  parent.path === '' ? name : `${parent.path}/${name}`

/** Splits a path from the archive into names; a leading slash means the layer itself, as for tar. */
export function namesIn(path: string): string[] {
  const names = partsOf(path)
  if (names.includes('..')) throw badLayer(`the name ${shown(path)} leads out of it`)
  if (path.includes('\0')) throw badLayer(`the name ${shown(path)} holds a zero byte`)
  if (path.length > longestPath || names.some((name) => name.length > longestPart)) {
    throw badLayer(`the name ${shown(path)} is too long`)
  }
  return names
}

const partsOf = (path: string): string[] => path.split('/').filter((part) => part !== '' && part !== '.')

export const isWhiteoutNode = (found: Stats): boolean => found.isCharacterDevice() && found.rdev === 0
