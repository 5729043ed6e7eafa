/**
 * Snapshots by name, and which of them are in use. A name is held from before its snapshot is taken until a
 * row owns it, so that the sweep removes nothing that is in use.
 */
import { AppError } from '../../../lib/app-error.ts'
import { KeyedLock } from '../../../lib/keyed-lock.ts'
import {
  canSnapshot,
  type Driver,
  type DriverHandle,
  type Snapshot,
  type SnapshotOptions,
} from '../../ports/driver.ts'
import { canBeMadeAgain } from './snapshot-names.ts'

/** The folders of snapshots on this machine. */
export interface SnapshotFolders {
  folder(name: string): string
  /** Names of all snapshots on disk, including incomplete ones. */
  names(): Promise<string[]>
  /** Disk space that removing all of these would free. Files that other snapshots share stay. */
  bytesOf(names: readonly string[]): Promise<number>
}

/** The removed snapshots. */
type Swept = { names: string[]; bytes: number }

type SweepOptions = {
  dryRun?: boolean
  /** Snapshots whose owner was deleted. */
  deleted?: readonly string[]
  /**
   * Called with the other snapshots without an owner, which somebody may want back. No other sweep runs
   * meanwhile.
   */
  onUnowned?: (names: readonly string[]) => Promise<void>
}

export class SnapshotStore {
  readonly #driver: Driver
  readonly #folders: SnapshotFolders
  readonly #protected = new Map<string, number>()
  readonly #sweeps = new KeyedLock()
  /** Names that were held at some moment of the current sweep. */
  readonly #protectedLately = new Set<string>()
  /** Snapshots that are being removed: `find` does not return them any more. */
  readonly #going = new Set<string>()

  constructor(parts: { driver: Driver; folders: SnapshotFolders }) {
    this.#driver = parts.driver
    this.#folders = parts.folders
  }

  /** True if a snapshot can hold the memory of processes. */
  get canTakeMemory(): boolean {
    return this.#driver.capabilities.snapshotMemory
  }

  folder(name: string): string {
    return this.#folders.folder(name)
  }

  /** Protects a name from the sweep until the returned function is called. */
  protect(name: string): () => void {
    this.#protectedLately.add(name)
    this.#protected.set(name, (this.#protected.get(name) ?? 0) + 1)
    return () => {
      const left = (this.#protected.get(name) ?? 1) - 1
      if (left === 0) this.#protected.delete(name)
      else this.#protected.set(name, left)
    }
  }

  /** Holds the name while the work runs. */
  async protecting<T>(name: string, work: () => Promise<T>): Promise<T> {
    const release = this.protect(name)
    try {
      return await work()
    } finally {
      release()
    }
  }

  takeSnapshot(
    handle: DriverHandle,
    name: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    return this.#saver().takeSnapshot(handle, this.folder(name), options, signal)
  }

  async find(name: string): Promise<Snapshot | undefined> {
    if (this.#going.has(name)) return undefined
    return canSnapshot(this.#driver) ? this.#driver.findSnapshot(this.folder(name)) : undefined
  }

  /** Holds the name meanwhile, so that a slow removal does not look like a snapshot without an owner. */
  async remove(name: string): Promise<void> {
    const driver = this.#driver
    if (canSnapshot(driver)) await this.protecting(name, () => driver.removeSnapshot(this.folder(name)))
  }

  names(): Promise<string[]> {
    return this.#folders.names()
  }

  /**
   * Removes snapshots that nobody owns or holds, if they can be made again or their owner was deleted. Calls
   * `readOwned` after it has listed all snapshots.
   */
  sweep(
    readOwned: () => Promise<Iterable<string>>,
    { dryRun = false, deleted = [], onUnowned = async () => {} }: SweepOptions = {},
  ): Promise<Swept> {
    return this.#sweeps.run('', async () => {
      this.#protectedLately.clear()
      for (const name of this.#protected.keys()) this.#protectedLately.add(name)
      const there = await this.#folders.names()
      const owned = new Set(await readOwned())
      const isUnowned = (name: string) => !owned.has(name) && !this.#protectedLately.has(name)
      const isWorthless = (name: string) => canBeMadeAgain(name) || deleted.includes(name)
      const bytes = await this.#folders.bytesOf(there.filter(isUnowned).filter(isWorthless))
      // Synchronous with the last check: a caller that holds a name later does not find its snapshot.
      const unowned = there.filter(isUnowned)
      const names = unowned.filter(isWorthless)
      if (dryRun) return { names, bytes }
      for (const name of names) this.#going.add(name)
      try {
        for (const name of names) await this.remove(name)
      } finally {
        this.#going.clear()
      }
      await onUnowned(unowned.filter((name) => !isWorthless(name)))
      return { names, bytes }
    })
  }

  #saver() {
    if (canSnapshot(this.#driver)) return this.#driver
    throw new AppError(
      'unavailable',
      `Sandboxes of the driver ${this.#driver.name} can be neither paused nor copied: the driver cannot take snapshots.`,
      { retry: { should: false } },
    )
  }
}
