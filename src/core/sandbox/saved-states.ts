/**
 * Saved states by name: what the driver kept, and which of them still belong to something. Every name is held
 * from before its saved state is begun until a row owns it, so that the sweep takes nothing that is in use.
 */
import { AppError } from '../../lib/app-error.ts'
import { canSave, type Driver, type DriverHandle, type SavedState, type SaveOptions } from '../driver.ts'

/** Where saved states lie on this machine. */
export interface SavedPlaces {
  folder(name: string): string
  /** Of everything that is there, half-made ones included. */
  names(): Promise<string[]>
}

export class SavedStates {
  readonly #driver: Driver
  readonly #places: SavedPlaces
  readonly #held = new Map<string, number>()

  constructor(parts: { driver: Driver; places: SavedPlaces }) {
    this.#driver = parts.driver
    this.#places = parts.places
  }

  /** Whether processes can be saved with the files. */
  get keepMemory(): boolean {
    return this.#driver.capabilities.saveMemory
  }

  folder(name: string): string {
    return this.#places.folder(name)
  }

  /** Keeps the sweep away from a name until the returned function is called. */
  hold(name: string): () => void {
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

  save(handle: DriverHandle, name: string, options: SaveOptions, signal?: AbortSignal): Promise<SavedState> {
    return this.#saver().save(handle, this.folder(name), options, signal)
  }

  async find(name: string): Promise<SavedState | undefined> {
    return canSave(this.#driver) ? this.#driver.saved(this.folder(name)) : undefined
  }

  async forget(name: string): Promise<void> {
    if (canSave(this.#driver)) await this.#driver.forget(this.folder(name))
  }

  /** Removes what nobody owns: left by a crash. `readOwned` is asked after everything there has been listed. */
  async sweep(readOwned: () => Promise<Iterable<string>>): Promise<string[]> {
    const there = await this.#places.names()
    const unheld = there.filter((name) => !this.#held.has(name))
    const owned = new Set(await readOwned())
    const orphans = unheld.filter((name) => !owned.has(name))
    for (const name of orphans) await this.forget(name)
    return orphans
  }

  #saver() {
    if (canSave(this.#driver)) return this.#driver
    throw new AppError(
      'unavailable',
      `Sandboxes of the driver ${this.#driver.name} can be neither paused nor copied: it cannot save them.`,
      { retry: { should: false } },
    )
  }
}
