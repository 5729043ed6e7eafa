/**
 * Stores snapshots in the object store as packs that other machines can read, and fetches them to this
 * machine's disk.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { AbortableJoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import {
  type CanExportSnapshots,
  canExportSnapshots,
  canFillMemory,
  type Driver,
  type ImportOptions,
  type MemoryNeeds,
  type Snapshot,
} from '../ports/driver.ts'
import type { MemoryLoad } from '../ports/memory-load.ts'
import type {
  ObjectKey,
  OpenedPack,
  PackedFile,
  PackedParts,
  PackStore,
  PackTarget,
} from '../ports/object-store.ts'
import type { SnapshotStore } from '../sandbox/snapshots/snapshot-store.ts'
import { Patience } from './patience.ts'
import type { RemoteBytes } from './remote-bytes-store.ts'

/** Maximum number of opened indexes: a resume that fails before its load begins leaves its index open. */
const maxOpened = 50

export type RemoteSnapshotsParts = {
  driver: Driver
  snapshots: SnapshotStore
  packs: PackStore
  clock: Clock
  log: Log
}

type PackFacts = Pick<RemoteBytes, 'needs'> & { index: string }

type FetchOptions = {
  /** Reads from the row which pack it is. Undefined: an earlier release stored it, and did not record the checksum. */
  index: () => Promise<string | undefined>
  /** Whether a complete copy on this machine has all that is wanted. */
  serves: (copy: Snapshot) => boolean
  /** Takes further files of the pack. */
  beside?: PackTarget
}

export class RemoteSnapshots {
  readonly #parts: RemoteSnapshotsParts
  readonly #fetches = new AbortableJoinedWork<Snapshot | undefined>()
  /** Packs whose memory is loaded next, by the name of the snapshot: their index need not be read again. */
  readonly #opened = new Map<string, OpenedPack>()

  constructor(parts: RemoteSnapshotsParts) {
    this.#parts = parts
  }

  /**
   * Stores the snapshot. Undefined if it is not on this machine. An object with this key holds the same
   * bytes, if it exists; `isNew` is false then. `beside` lists further files for the pack.
   */
  store(
    name: string,
    key: ObjectKey,
    signal: AbortSignal,
    beside: readonly PackedFile[] = [],
  ): Promise<(PackFacts & { isNew: boolean }) | undefined> {
    const { snapshots, packs } = this.#parts
    return snapshots.protecting(name, async () => {
      const portable = await this.#exporter().exportSnapshot(snapshots.folder(name))
      if (!portable) return undefined
      const files = [...beside, ...portable.files]
      const { isNew, checksum } = await packs.store(key, files, portable.note, signal)
      return { needs: portable.needs, index: checksum, isNew }
    })
  }

  /**
   * Fetches the snapshot unless a copy that serves is on this machine. Undefined if the object store does not have it either.
   * Fetches only files without `memory`, or if this machine cannot use the memory. Concurrent calls for one
   * snapshot share the fetch until all of them have given up. They are starts of one build, which want the same of it: a paused
   * sandbox has one resume at a time.
   */
  async fetch(
    name: string,
    key: ObjectKey,
    options: ImportOptions,
    signal: AbortSignal,
    { serves, beside, index }: FetchOptions,
  ): Promise<Snapshot | undefined> {
    const { snapshots } = this.#parts
    const isServing = (copy: Snapshot | undefined) => copy && !copy.arriving && serves(copy)
    const here = await snapshots.find(name)
    if (isServing(here)) return here
    return this.#fetches.run(name, signal, (signal) =>
      snapshots.protecting(name, async () => {
        const there = await snapshots.find(name)
        if (isServing(there)) return there
        const pack = await this.#parts.packs.open(key, signal)
        if (!pack) return undefined
        await requireSame(pack, key, index)
        // The object store has been seen to have more.
        if (there && !there.arriving) await snapshots.remove(name)
        return this.#fetchInto(name, pack, options, signal, beside)
      }),
    )
  }

  #fetchInto(
    name: string,
    pack: OpenedPack,
    options: ImportOptions,
    signal: AbortSignal,
    beside: PackTarget | undefined,
  ): Promise<Snapshot | undefined> {
    const { snapshots } = this.#parts
    if (options.memoryLater) this.#remember(name, pack)
    return this.#exporter().importSnapshot(snapshots.folder(name), options, async (targetOf) => {
      const target = await targetOf(pack.note)
      const open = (file: string, bytes: number) => beside?.open(file, bytes) ?? target.open(file, bytes)
      await pack.fetch({ ...target, open }, signal)
      return true
    })
  }

  /** Undefined if the object store does not have the snapshot. */
  async factsOf(key: ObjectKey): Promise<PackFacts | undefined> {
    const pack = await this.#parts.packs.open(key)
    return pack && { needs: this.#exporter().needsIn(pack.note), index: pack.checksum }
  }

  /** Brings the memory of an arriving snapshot, by the pack that `index` tells. Rejects if the object store fails for minutes. */
  async fill(name: string, key: ObjectKey, index: FetchOptions['index'], load: MemoryLoad): Promise<void> {
    const { signal } = load
    const { driver, snapshots, packs, clock, log } = this.#parts
    const patience = new Patience(clock, (err) =>
      log.warn(
        { key, err },
        'Memory of a running sandbox cannot be read from the object store; trying again.',
      ),
    )
    const pack = this.#opened.get(name) ?? (await patience.try(() => packs.open(key, signal), signal))
    this.#opened.delete(name)
    if (!pack) throw new AppError('not_found', `The object store has no ${key}.`)
    await requireSame(pack, key, index)
    const partsOf = (file: string): PackedParts | undefined => {
      const found = pack.partsOf(file)
      return (
        found && {
          ...found,
          read: (index, signal) => patience.try(() => found.read(index, signal), signal),
          write: (index, fd, signal) => patience.try(() => found.write(index, fd, signal), signal),
        }
      )
    }
    if (!canFillMemory(driver)) throw new Error(`The driver ${driver.name} cannot load memory.`)
    await snapshots.protecting(name, () => driver.fillMemory(snapshots.folder(name), partsOf, load))
  }

  #remember(name: string, pack: OpenedPack): void {
    this.#opened.set(name, pack)
    for (const oldest of this.#opened.keys()) {
      if (this.#opened.size <= maxOpened) return
      this.#opened.delete(oldest)
    }
  }

  whyUnfit(needs: MemoryNeeds): Promise<string | undefined> {
    return this.#exporter().whyUnfit(needs)
  }

  #exporter(): CanExportSnapshots {
    const { driver } = this.#parts
    if (canExportSnapshots(driver)) return driver
    throw new AppError('unprocessable', `Snapshots of ${driver.name} can be used on this machine only.`)
  }
}

/** The store may have got another pack under this key meanwhile. */
async function requireSame(pack: OpenedPack, key: ObjectKey, index: FetchOptions['index']): Promise<void> {
  if (![undefined, pack.checksum].includes(await index())) throw isAnother(key)
}

const isAnother = (key: ObjectKey): AppError =>
  new AppError(
    'unavailable',
    `The object ${key} in the object store is not the one that was stored there, so it is not used. Restore the bucket, or give each Warren a bucket of its own.`,
    { retry: { should: false } },
  )
