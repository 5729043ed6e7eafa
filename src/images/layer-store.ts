/**
 * Unpacked layers on disk, named by the digest of their archive: `layers/<hex>/root`, with its record in
 * `layer.json` beside it. A layer appears by one rename, complete. Leftovers of a crash are removed at the
 * start; unreadable layers are left alone.
 */
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { mkdir, readlink, rename, rm, symlink, utimes } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Freed, UsedLayers } from '../core/ports/images.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { randomHex } from '../lib/ids.ts'
import { ifPresent } from '../lib/if-present.ts'
import type { Log } from '../lib/log.ts'
import { isDigest, shortDigest } from './digest.ts'
import { allowReader, isReader } from './layer-readers.ts'
import { type LayerRecord, type LocalLayer, readRecord, recordFile, writeRecord } from './layer-record.ts'
import type { LayerFacts } from './layer-writer.ts'
import { SharedFetch } from './shared-fetch.ts'

export type LayerStoreOptions = {
  folder: string
  ownerShift: number
  /** A layer that was asked for within this time is never pruned, even if it looks unused. */
  keepUnusedMs: number
  clock: Clock
  /** Syncs everything written to the disk. */
  sync: (folder: string) => Promise<void>
  log: Log
}

const partialPrefix = '.partial-'
const removingPrefix = '.removing-'

export class LayerStore {
  readonly #options: LayerStoreOptions
  readonly #layers: string
  readonly #fetches = new SharedFetch<LocalLayer>()
  /** Layers that pulls rely on, with the number of pulls. */
  readonly #protected = new Map<string, number>()
  /** When the folder of a layer was last requested for the start of a sandbox. */
  readonly #askedAt = new Map<string, number>()
  /** Layers that are complete, but whose content a crash of the machine could still destroy. */
  readonly #unsynced = new Map<string, LocalLayer>()

  private constructor(options: LayerStoreOptions) {
    this.#options = options
    this.#layers = join(options.folder, 'layers')
  }

  static async open(options: LayerStoreOptions): Promise<LayerStore> {
    const store = new LayerStore(options)
    mkdirSync(store.#layers, { recursive: true, mode: 0o700 })
    await Promise.all(readdirSync(store.#layers).map((name) => store.#adopt(name)))
    await store.sync()
    return store
  }

  /**
   * Removes incomplete layers after a crash, and continues with layers that were not synced when Warren
   * stopped.
   */
  async #adopt(name: string): Promise<void> {
    const folder = join(this.#layers, name)
    const record = isLayerName(name) ? this.#readable(name) : undefined
    if (record === 'unreadable') return
    const isLost = record?.unsyncedSince !== undefined && record.unsyncedSince !== bootID()
    if (!record || isLost) return rm(folder, { recursive: true, force: true })
    const { unsyncedSince, ...layer } = record
    if (unsyncedSince !== undefined) this.#unsynced.set(`sha256:${name}`, layer)
  }

  /** Protects the layers from pruning until the returned function is called. */
  protect(diffIDs: readonly string[]): () => void {
    for (const diffID of diffIDs) this.#protected.set(diffID, (this.#protected.get(diffID) ?? 0) + 1)
    return () => {
      for (const diffID of diffIDs) {
        const left = this.#protected.get(diffID)! - 1
        if (left === 0) this.#protected.delete(diffID)
        else this.#protected.set(diffID, left)
      }
    }
  }

  isBeingFetched(diffID: string, reader: string): boolean {
    return this.#fetches.has(`${diffID} ${reader}`)
  }

  /** Undefined if the layer is not here, or not for this reader. Hold the layer before this call. */
  async find(diffID: string, reader: string): Promise<LocalLayer | undefined> {
    const isTheirs = isReader(join(this.#layers, nameOf(diffID)), reader)
    const found = isTheirs ? this.#read(nameOf(diffID)) : undefined
    const now = this.#options.clock.now() / 1000
    if (found) await utimes(recordFile(join(this.#layers, nameOf(diffID))), now, now)
    return found
  }

  /** `unpack` fills the given folder. Afterwards this reader, or `anybody`, may use the layer. */
  fetch(
    diffID: string,
    reader: string,
    signal: AbortSignal,
    unpack: (rootFolder: string, signal: AbortSignal) => Promise<LayerFacts>,
  ): Promise<LocalLayer> {
    const key = `${diffID} ${reader}`
    return this.#fetches.run(key, signal, (joined) => this.#make(diffID, reader, joined, unpack))
  }

  /** Like `fetch`, from a source that does not check who may read the layer: it has no readers yet. */
  receive(
    diffID: string,
    signal: AbortSignal,
    unpack: (rootFolder: string, signal: AbortSignal) => Promise<LayerFacts>,
  ): Promise<LocalLayer> {
    return this.#fetches.run(diffID, signal, (joined) => this.#make(diffID, undefined, joined, unpack))
  }

  /** Throws `not_found` if the layer is not here. */
  recordOf(diffID: string): LocalLayer {
    this.folderOf(diffID)
    return this.#read(nameOf(diffID))!
  }

  /**
   * Makes a root elsewhere on this machine, with its owners already shifted, a layer: by a link, so that it
   * costs nothing and stays where it is when the layer is removed.
   */
  async adopt(diffID: string, rootFolder: string): Promise<void> {
    const folder = join(this.#layers, nameOf(diffID))
    const linked = await ifPresent(readlink(join(folder, 'root')).catch(notALink))
    if (linked === rootFolder && this.#read(nameOf(diffID))) return
    const partial = join(this.#layers, `${partialPrefix}${randomHex(8)}`)
    await mkdir(partial, { mode: 0o700 })
    await symlink(rootFolder, join(partial, 'root'))
    const layer: LocalLayer = { bytes: 0, opaqueRoot: false, ownerShift: this.#options.ownerShift }
    await writeRecord(partial, layer)
    // The data folder was moved, or an archive has the same name: neither is the intended root.
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
      const record = this.#readable(name)
      if (record === 'unreadable') continue
      freed.count++
      freed.bytes += record?.bytes ?? 0
      if (dryRun) continue
      this.#askedAt.delete(name)
      const removing = join(this.#layers, `${removingPrefix}${name}-${randomHex(4)}`)
      // Synchronous with the check above: nobody can find the layer in between.
      renameSync(join(this.#layers, name), removing)
      await rm(removing, { recursive: true, force: true })
    }
    return freed
  }

  /** Syncs new layers to the disk. The next start detects if the machine died before this was done. */
  async sync(): Promise<void> {
    const layers = [...this.#unsynced]
    this.#unsynced.clear()
    if (layers.length === 0) return
    try {
      await this.#options.sync(this.#layers)
      for (const [diffID, layer] of layers) {
        // A missing layer was pruned meanwhile.
        await ifPresent(writeRecord(join(this.#layers, nameOf(diffID)), layer))
      }
    } catch (error) {
      for (const [diffID, layer] of layers) this.#unsynced.set(diffID, layer)
      throw error
    }
  }

  /** Resolves when every started fetch has ended. */
  fetchesFinished(): Promise<void> {
    return this.#fetches.finished()
  }

  async #make(
    diffID: string,
    reader: string | undefined,
    signal: AbortSignal,
    unpack: (rootFolder: string, signal: AbortSignal) => Promise<LayerFacts>,
  ): Promise<LocalLayer> {
    const there = reader === undefined ? this.#read(nameOf(diffID)) : await this.find(diffID, reader)
    if (there) return there
    const partial = join(this.#layers, `${partialPrefix}${randomHex(8)}`)
    const root = join(partial, 'root')
    await mkdir(root, { recursive: true, mode: 0o711 })
    try {
      const { bytes, opaqueRoot } = await unpack(root, signal)
      const layer: LocalLayer = { bytes, opaqueRoot, ownerShift: this.#options.ownerShift }
      await writeRecord(partial, { ...layer, unsyncedSince: bootID() })
      if (reader !== undefined) await allowReader(partial, reader)
      signal.throwIfAborted()
      return await this.#publish(diffID, reader, partial, layer)
    } catch (error) {
      await rm(partial, { recursive: true, force: true })
      throw error
    }
  }

  /** If the layer is here already, the fetch has only proved that this reader may use it too. */
  async #publish(
    diffID: string,
    reader: string | undefined,
    partial: string,
    layer: LocalLayer,
  ): Promise<LocalLayer> {
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
    if (reader !== undefined) await allowReader(folder, reader)
    await rm(partial, { recursive: true, force: true })
    return this.#read(nameOf(diffID)) ?? layer
  }

  #isWanted(name: string): boolean {
    const diffIDs = [...this.#protected.keys()].map(nameOf)
    if (diffIDs.includes(name)) return true
    const record = lstatSync(recordFile(join(this.#layers, name)), { throwIfNoEntry: false })
    const askedAt = Math.max(record?.mtimeMs ?? 0, this.#askedAt.get(name) ?? 0)
    return askedAt > this.#options.clock.now() - this.#options.keepUnusedMs
  }

  /** Undefined also for a layer that was made for other owners: it is made again. */
  #read(name: string): LayerRecord | undefined {
    const record = readRecord(join(this.#layers, name))
    return record?.ownerShift === this.#options.ownerShift ? record : undefined
  }

  #readable(name: string): LayerRecord | undefined | 'unreadable' {
    try {
      return this.#read(name)
    } catch (err) {
      this.#options.log.warn({ err, layer: name }, 'a layer cannot be read and is left as it is')
      return 'unreadable'
    }
  }
}

const isLayerName = (name: string): boolean => /^[0-9a-f]{64}$/.test(name)
const nameOf = (diffID: string): string => diffID.slice(diffID.indexOf(':') + 1)

function bootID(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
}

/** An unpacked layer has a folder in this place, not a link. */
function notALink(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'EINVAL') throw error
}
