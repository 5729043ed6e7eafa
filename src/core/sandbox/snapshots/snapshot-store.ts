/**
 * Snapshots by name: what the driver kept, and which of them still belong to something. Every name is held
 * from before its snapshot is begun until a row owns it, so that the sweep takes nothing that is in use.
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

/** Where snapshots lie on this machine. */
export interface SnapshotFolders {
  folder(name: string): string
  /** The names of all snapshots on disk, half-made ones included. */
  names(): Promise<string[]>
  /** What removing all of these would give back: files that others share stay. */
  roomOf(names: readonly string[]): Promise<number>
}

/** What was removed. */
export type Swept = { names: string[]; bytes: number }

export type SweepOptions = {
  dryRun?: boolean
  /** Snapshots whose owner was deleted. */
  deleted?: readonly string[]
  /** Gets the others that nobody owns, and that somebody may want back. No other sweep runs meanwhile. */
  onUnowned?: (names: readonly string[]) => Promise<void>
}

export class SnapshotStore {
  readonly #driver: Driver
  readonly #places: SnapshotFolders
  readonly #held = new Map<string, number>()
  readonly #sweeps = new KeyedLock()
  /** Held at some moment of the sweep that is under way. */
  readonly #heldLately = new Set<string>()
  /** Being removed: nobody finds them any more. */
  readonly #going = new Set<string>()

  constructor(parts: { driver: Driver; places: SnapshotFolders }) {
    this.#driver = parts.driver
    this.#places = parts.places
  }

  /** Whether processes can be saved with the files. */
  get keepMemory(): boolean {
    return this.#driver.capabilities.snapshotMemory
  }

  folder(name: string): string {
    return this.#places.folder(name)
  }

  /** Keeps the sweep away from a name until the returned function is called. */
  hold(name: string): () => void {
    this.#heldLately.add(name)
    this.#held.set(name, (this.#held.get(name) ?? 0) + 1)
    return () => {
      const left = (this.#held.get(name) ?? 1) - 1
      if (left === 0) this.#held.delete(name)
      else this.#held.set(name, left)
    }
  }

  /** The same, as long as the work goes on. */
  async holding<T>(name: string, work: () => Promise<T>): Promise<T> {
    const release = this.hold(name)
    try {
      return await work()
    } finally {
      release()
    }
  }

  take(
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

  /** Held meanwhile, so that a removal that takes its time is not taken for a snapshot without an owner. */
  async remove(name: string): Promise<void> {
    const driver = this.#driver
    if (canSnapshot(driver)) await this.holding(name, () => driver.removeSnapshot(this.folder(name)))
  }

  names(): Promise<string[]> {
    return this.#places.names()
  }

  /**
   * Removes what nobody owns or holds, if it can be made again or is among the names whose owner was deleted. `readOwned`
   * is asked after everything there has been listed.
   */
  sweep(
    readOwned: () => Promise<Iterable<string>>,
    { dryRun = false, deleted = [], onUnowned = async () => {} }: SweepOptions = {},
  ): Promise<Swept> {
    return this.#sweeps.run('', async () => {
      this.#heldLately.clear()
      for (const name of this.#held.keys()) this.#heldLately.add(name)
      const there = await this.#places.names()
      const owned = new Set(await readOwned())
      const isUnowned = (name: string) => !owned.has(name) && !this.#heldLately.has(name)
      const isWorthless = (name: string) => canBeMadeAgain(name) || deleted.includes(name)
      const bytes = await this.#places.roomOf(there.filter(isUnowned).filter(isWorthless))
      // In one go with the last look: who holds one later does not find it.
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
      `Sandboxes of the driver ${this.#driver.name} can be neither paused nor copied: it cannot save them.`,
      { retry: { should: false } },
    )
  }
}
