/**
 * Stores snapshots in the object store as packs that other machines can read, and fetches them to this
 * machine's disk.
 */
import { AppError } from '../../lib/app-error.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { MemoryNeeds } from '../ports/driver.ts'
import { type CanExportSnapshots, canExportSnapshots, type Driver, type Snapshot } from '../ports/driver.ts'
import type { ObjectKey, PackedFile, PackNote, PackStore, PackTarget } from '../ports/object-store.ts'
import type { SnapshotStore } from '../sandbox/snapshots/snapshot-store.ts'

export type StoredSnapshotsParts = { driver: Driver; snapshots: SnapshotStore; packs: PackStore }

export class StoredSnapshots {
  readonly #parts: StoredSnapshotsParts
  readonly #fetches = new JoinedWork<Snapshot | undefined>()

  constructor(parts: StoredSnapshotsParts) {
    this.#parts = parts
  }

  /**
   * Stores the snapshot. Undefined if it is not on this machine. An object with this key holds the same
   * bytes, if it exists. `beside` lists further files for the pack.
   */
  store(
    name: string,
    key: ObjectKey,
    signal: AbortSignal,
    beside: readonly PackedFile[] = [],
  ): Promise<{ needs: MemoryNeeds | null } | undefined> {
    const { snapshots, packs } = this.#parts
    return snapshots.holding(name, async () => {
      const portable = await this.#exporter().exportSnapshot(snapshots.folder(name))
      if (!portable) return undefined
      await packs.store(key, [...portable.files, ...beside], portable.note, signal)
      return { needs: portable.needs }
    })
  }

  /**
   * Fetches the snapshot unless it is on this machine. Undefined if the object store does not have it either.
   * Fetches only files without `memory`, or if this machine cannot use the memory. Concurrent calls for one
   * snapshot share the fetch.
   */
  async fetch(
    name: string,
    key: ObjectKey,
    options: { memory: boolean },
    signal: AbortSignal,
    beside?: PackTarget,
  ): Promise<Snapshot | undefined> {
    const { snapshots, packs } = this.#parts
    const there = await snapshots.find(name)
    if (there) return there
    return this.#fetches.run(name, () =>
      snapshots.holding(name, () =>
        this.#exporter().importSnapshot(snapshots.folder(name), options, async (targetOf) => {
          const toAll = async (note: PackNote): Promise<PackTarget> => {
            const target = await targetOf(note)
            return { open: (file) => beside?.open(file) ?? target.open(file) }
          }
          const note = await packs.fetch(key, toAll, signal)
          return note !== undefined
        }),
      ),
    )
  }

  async isHere(name: string): Promise<boolean> {
    return (await this.#parts.snapshots.find(name)) !== undefined
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
