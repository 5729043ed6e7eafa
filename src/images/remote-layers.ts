/** Layers in the object store: stored once by the node that has one, and fetched by those that need it. */
import { readFile, readlink, rename, stat, writeFile } from 'node:fs/promises'
import { layerKey } from '../core/object-storage/keys.ts'
import type { RemoteLayers } from '../core/ports/images.ts'
import type { PackNote, PackStore } from '../core/ports/object-store.ts'
import { AppError } from '../lib/app-error.ts'
import { randomHex } from '../lib/ids.ts'
import { ifPresent } from '../lib/if-present.ts'
import { shortDigest } from './digest.ts'
import type { LayerStore } from './layer-store.ts'
import { digestOfTree, packTree, unpackTree } from './layer-tar.ts'
import type { LayerFacts } from './layer-writer.ts'

const fileName = 'layer.tar'
const noteVersion = 1

type LayerNote = { version: number; bytes: number; opaqueRoot: boolean; ownerShift: number }

export class PackedLayers implements RemoteLayers {
  readonly #store: LayerStore
  readonly #packs: PackStore
  readonly #ownerShift: number

  constructor(parts: { store: LayerStore; packs: PackStore; ownerShift: number }) {
    this.#store = parts.store
    this.#packs = parts.packs
    this.#ownerShift = parts.ownerShift
  }

  async sharedNames(layers: readonly string[]): Promise<string[]> {
    return Promise.all(layers.map((layer) => this.#sharedName(layer)))
  }

  /** A layer that another machine stored is not on this one. */
  async #sharedName(layer: string): Promise<string> {
    const root = this.#store.has(layer) ? await linkedRoot(this.#store.folderOf(layer)) : undefined
    if (root === undefined) return layer
    const shared = await nameByBytes(root)
    if (shared !== layer) await this.#store.adopt(shared, root)
    return shared
  }

  async store(layers: readonly string[], signal: AbortSignal): Promise<void> {
    const release = this.#store.protect(layers)
    try {
      for (const layer of layers) await this.#storeOne(layer, signal)
    } finally {
      release()
    }
  }

  async fetch(layers: readonly string[], signal: AbortSignal): Promise<void> {
    const missing = layers.filter((layer) => !this.#store.has(layer))
    if (missing.length === 0) return
    const release = this.#store.protect(missing)
    try {
      await Promise.all(missing.map((layer) => this.#fetchOne(layer, signal)))
    } finally {
      release()
    }
    await this.#store.sync()
  }

  async #storeOne(layer: string, signal: AbortSignal): Promise<void> {
    const key = layerKey(layer)
    if (await this.#packs.has(key, signal)) return
    const folder = this.#store.folderOf(layer)
    if ((await this.#sharedName(layer)) !== layer)
      throw new AppError('internal', `The layer ${shortDigest(layer)} is not named after its bytes.`)
    const { bytes, opaqueRoot, ownerShift } = this.#store.recordOf(layer)
    const note: LayerNote = { version: noteVersion, bytes, opaqueRoot, ownerShift }
    // A link leads to a root that was made on this machine; tar must follow it.
    const content = packTree(`${folder}/`, signal)
    await this.#packs.store(key, [{ name: fileName, content }], note, signal)
  }

  async #fetchOne(layer: string, signal: AbortSignal): Promise<void> {
    await this.#store.receive(layer, signal, async (root, shared) => {
      let facts: LayerFacts | undefined
      const found = await this.#packs.fetch(
        layerKey(layer),
        (note) => {
          facts = this.#factsIn(layer, note)
          return { open: () => (content) => unpackTree(content, root, shared) }
        },
        shared,
      )
      if (found && facts) return facts
      throw new AppError(
        'not_found',
        `The layer ${shortDigest(layer)} is neither on this machine nor in the object store. Build the template again.`,
      )
    })
  }

  #factsIn(layer: string, note: PackNote): LayerFacts {
    const { version, bytes, opaqueRoot, ownerShift } = note as LayerNote
    if (version === noteVersion && ownerShift === this.#ownerShift) {
      return { bytes, opaqueRoot, entries: 0, devicesLeftOut: 0 }
    }
    throw new AppError(
      'unprocessable',
      `The layer ${shortDigest(layer)} was stored in the object store by another version of Warren, with other file owners.`,
    )
  }
}

/**
 * A file beside a root that was made on this machine: the digest of its bytes, and the folder that was read.
 */
const digestFile = (rootFolder: string): string => `${rootFolder}.digest`

/** Reads the whole root the first time, and again if it was made anew. */
export async function nameByBytes(rootFolder: string): Promise<string> {
  const known = await notedDigest(rootFolder)
  if (known !== undefined) return known
  const identity = await identityOf(rootFolder)
  const digest = await digestOfTree(rootFolder)
  const beside = `${digestFile(rootFolder)}.${randomHex(8)}`
  await writeFile(beside, `${digest} ${identity}`)
  await rename(beside, digestFile(rootFolder))
  return digest
}

async function notedDigest(rootFolder: string): Promise<string | undefined> {
  const [digest, identity] = ((await ifPresent(readFile(digestFile(rootFolder), 'utf8'))) ?? '').split(' ')
  return identity === (await identityOf(rootFolder)) ? digest : undefined
}

async function identityOf(folder: string): Promise<string> {
  const { ino, birthtimeMs } = await stat(folder)
  return `${ino}:${birthtimeMs}`
}

/** The root on this machine that the layer is a link to. Undefined if it is none. */
const linkedRoot = (folder: string): Promise<string | undefined> =>
  ifPresent(readlink(folder)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EINVAL') return undefined
    throw error
  })
