/**
 * Unpacked layers on disk, named by the digest of their archive: `layers/<hex>/root` and what is known of it in
 * `layer.json` beside. A layer appears by one rename, whole. What a crash left behind is removed at the start.
 */
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs'
import { mkdir, readlink, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Freed, UsedLayers } from '../core/images.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { randomHex } from '../lib/ids.ts'
import { isDigest, shortDigest } from './digest.ts'
import { allowReader, isReader } from './layer-readers.ts'
import type { LayerFacts } from './layer-writer.ts'
import { SharedFetch } from './shared-fetch.ts'

export type StoredLayer = { bytes: number; opaqueRoot: boolean; ownerShift: number }

/** `unsyncedSince`: the boot of the machine in which it was written and perhaps never reached the disk. */
type MarkedLayer = StoredLayer & { unsyncedSince?: string }

export type LayerStoreOptions = {
  folder: string
  ownerShift: number
  /** A layer that was asked for within this time is kept, whoever says it is unused. */
  keepUnusedMs: number
  clock: Clock
  /** Brings everything written to disk. */
  sync: (folder: string) => Promise<void>
}

const partialPrefix = '.partial-'
const removingPrefix = '.removing-'

export class LayerStore {
  readonly #options: LayerStoreOptions
  readonly #layers: string
  readonly #fetches = new SharedFetch<StoredLayer>()
  /** Layers that a pull counts on, and by how many. */
  readonly #held = new Map<string, number>()
  /** When the folder of a layer was last handed out, to whoever starts a sandbox on it. */
  readonly #askedAt = new Map<string, number>()
  /** Whole, but a crash of the machine could still take their content. */
  readonly #unsynced = new Map<string, StoredLayer>()

  private constructor(options: LayerStoreOptions) {
    this.#options = options
    this.#layers = join(options.folder, 'layers')
  }

  static async open(options: LayerStoreOptions): Promise<LayerStore> {
    const store = new LayerStore(options)
    mkdirSync(store.#layers, { recursive: true, mode: 0o711 })
    const names = readdirSync(store.#layers)
    await Promise.all(
      names
        .filter((name) => store.#isRubbish(name))
        .map((name) => rm(join(store.#layers, name), { recursive: true, force: true })),
    )
    await store.#resume()
    return store
  }

  /** Warren was stopped before these reached the disk, but the machine went on. */
  async #resume(): Promise<void> {
    for (const name of readdirSync(this.#layers)) {
      const { unsyncedSince, ...layer } = this.#read(name) as MarkedLayer
      if (unsyncedSince !== undefined) this.#unsynced.set(`sha256:${name}`, layer)
    }
    await this.sync()
  }

  /** While one is held it is not pruned. The returned function lets go. */
  hold(diffIDs: readonly string[]): () => void {
    for (const diffID of diffIDs) this.#held.set(diffID, (this.#held.get(diffID) ?? 0) + 1)
    return () => {
      for (const diffID of diffIDs) {
        const left = this.#held.get(diffID)! - 1
        if (left === 0) this.#held.delete(diffID)
        else this.#held.set(diffID, left)
      }
    }
  }

  isBeingFetched(diffID: string, reader: string): boolean {
    return this.#fetches.has(`${diffID} ${reader}`)
  }

  /** Undefined where it is not here, or not for this reader. To be held before. */
  async find(diffID: string, reader: string): Promise<StoredLayer | undefined> {
    const isTheirs = isReader(join(this.#layers, nameOf(diffID)), reader)
    const found = isTheirs ? this.#read(nameOf(diffID)) : undefined
    const now = this.#options.clock.now() / 1000
    if (found) await utimes(join(this.#layers, nameOf(diffID), 'layer.json'), now, now)
    return found
  }

  /** `unpack` fills the folder that it is given. From then on the layer is for this reader, or for `anybody`. */
  fetch(
    diffID: string,
    reader: string,
    signal: AbortSignal,
    unpack: (rootFolder: string, signal: AbortSignal) => Promise<LayerFacts>,
  ): Promise<StoredLayer> {
    const key = `${diffID} ${reader}`
    return this.#fetches.run(key, signal, (joined) => this.#make(diffID, reader, joined, unpack))
  }

  /**
   * A root that lies elsewhere on this machine, its owners already shifted, is a layer from now on: by a link, so that
   * it costs nothing, and stays where it is when the layer goes.
   */
  async adopt(diffID: string, rootFolder: string): Promise<void> {
    const folder = join(this.#layers, nameOf(diffID))
    const linked = await readlink(join(folder, 'root')).catch(() => undefined)
    if (linked === rootFolder && this.#read(nameOf(diffID))) return
    const partial = join(this.#layers, `${partialPrefix}${randomHex(8)}`)
    await mkdir(partial, { mode: 0o711 })
    await symlink(rootFolder, join(partial, 'root'))
    const layer: StoredLayer = { bytes: 0, opaqueRoot: false, ownerShift: this.#options.ownerShift }
    await writeFile(join(partial, 'layer.json'), JSON.stringify(layer))
    // The data folder was moved, or somebody's archive has the same name: neither is the root that is meant.
    await rm(folder, { recursive: true, force: true })
    await rename(partial, folder)
  }

  folderOf(diffID: string): string {
    if (!isDigest(diffID) || !this.#read(nameOf(diffID))) {
      const shown = isDigest(diffID) ? shortDigest(diffID) : 'of that name'
      throw new AppError('not_found', `The layer ${shown} is not on this machine. Build the template again.`)
    }
    this.#askedAt.set(nameOf(diffID), this.#options.clock.now())
    return join(this.#layers, nameOf(diffID), 'root')
  }

  has(diffID: string): boolean {
    return isDigest(diffID) && this.#read(nameOf(diffID)) !== undefined
  }

  async prune(used: UsedLayers, dryRun: boolean): Promise<Freed> {
    const usedNames = new Set([...used.layers].filter(isDigest).map(nameOf))
    for (const folder of used.folders) usedNames.add(basename(dirname(folder)))
    const freed = { count: 0, bytes: 0 }
    for (const name of readdirSync(this.#layers)) {
      if (!isLayerName(name) || usedNames.has(name) || this.#isWanted(name)) continue
      freed.count++
      freed.bytes += this.#read(name)?.bytes ?? 0
      if (dryRun) continue
      this.#askedAt.delete(name)
      const removing = join(this.#layers, `${removingPrefix}${name}-${randomHex(4)}`)
      // In one go with the look above: nobody can find it in between.
      renameSync(join(this.#layers, name), removing)
      await rm(removing, { recursive: true, force: true })
    }
    return freed
  }

  /** Brings new layers to the disk. A machine that dies before it is done is found out at the next start. */
  async sync(): Promise<void> {
    const layers = [...this.#unsynced]
    this.#unsynced.clear()
    if (layers.length === 0) return
    await this.#options.sync(this.#layers)
    for (const [diffID, layer] of layers) {
      const facts = join(this.#layers, nameOf(diffID), 'layer.json')
      // Missing: it was pruned meanwhile.
      await writeFile(`${facts}.new`, JSON.stringify(layer))
        .then(() => rename(`${facts}.new`, facts))
        .catch(() => {})
    }
  }

  /** Resolves when every fetch that was started has ended. */
  fetchesFinished(): Promise<void> {
    return this.#fetches.finished()
  }

  async #make(
    diffID: string,
    reader: string,
    signal: AbortSignal,
    unpack: (rootFolder: string, signal: AbortSignal) => Promise<LayerFacts>,
  ): Promise<StoredLayer> {
    const there = await this.find(diffID, reader)
    if (there) return there
    const partial = join(this.#layers, `${partialPrefix}${randomHex(8)}`)
    const root = join(partial, 'root')
    await mkdir(root, { recursive: true, mode: 0o711 })
    try {
      const { bytes, opaqueRoot } = await unpack(root, signal)
      const layer: StoredLayer = { bytes, opaqueRoot, ownerShift: this.#options.ownerShift }
      await writeFile(join(partial, 'layer.json'), JSON.stringify({ ...layer, unsyncedSince: bootID() }))
      await allowReader(partial, reader)
      signal.throwIfAborted()
      return await this.#publish(diffID, reader, partial, layer)
    } catch (error) {
      await rm(partial, { recursive: true, force: true })
      throw error
    }
  }

  /** Somebody else may have it here already: then what was fetched has only shown that the reader has it too. */
  async #publish(diffID: string, reader: string, partial: string, layer: StoredLayer): Promise<StoredLayer> {
    const folder = join(this.#layers, nameOf(diffID))
    const isNew = await rename(partial, folder).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
        return false
      },
    )
    if (isNew) {
      this.#unsynced.set(diffID, layer)
      return layer
    }
    await allowReader(folder, reader)
    await rm(partial, { recursive: true, force: true })
    return (await this.find(diffID, reader)) ?? layer
  }

  #isWanted(name: string): boolean {
    const diffIDs = [...this.#held.keys()].map(nameOf)
    if (diffIDs.includes(name)) return true
    const facts = lstatSync(join(this.#layers, name, 'layer.json'), { throwIfNoEntry: false })
    const askedAt = Math.max(facts?.mtimeMs ?? 0, this.#askedAt.get(name) ?? 0)
    return askedAt > this.#options.clock.now() - this.#options.keepUnusedMs
  }

  #isRubbish(name: string): boolean {
    // Also one that was whole when its making or its removal was cut off.
    if (!isLayerName(name)) return true
    const layer = this.#read(name) as MarkedLayer | undefined
    if (!layer) return true
    return layer.unsyncedSince !== undefined && layer.unsyncedSince !== bootID()
  }

  /** Undefined also for one that was made for other owners: it is made again. */
  #read(name: string): StoredLayer | undefined {
    try {
      const layer = JSON.parse(readFileSync(join(this.#layers, name, 'layer.json'), 'utf8')) as StoredLayer
      const isWhole = statSync(join(this.#layers, name, 'root')).isDirectory()
      return isWhole && layer.ownerShift === this.#options.ownerShift ? layer : undefined
    } catch {
      return undefined
    }
  }
}

const isLayerName = (name: string): boolean => /^[0-9a-f]{64}$/.test(name)
const nameOf = (diffID: string): string => diffID.slice(diffID.indexOf(':') + 1)

function bootID(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
}
