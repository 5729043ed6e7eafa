/**
 * Turns on volumes, and the moves of their rows inside a turn. A move whose answer was lost is tried again, and the row
 * is read back: inside a turn nobody else moves it, so a row that is in the state of the move was moved by it. A move
 * that stays unknown rejects with `unavailable`; then nothing may be removed, and `VolumeService.reconcile` decides later.
 */
import type { Clock } from '../../lib/clock.ts'
import { insertOnce } from '../../lib/insert-once.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import { type InTurn, Turns } from '../../lib/turns.ts'
import type { Volume, VolumeState } from './volume.ts'
import type { VolumeStore } from './volume-store.ts'

/** Nobody can use it any more: its disk may be removed. */
export type DeletingVolume = InTurn<Volume> & { state: 'deleting' }

export const isDeleting = (row: InTurn<Volume>): row is DeletingVolume => row.state === 'deleting'

export class VolumeTurns extends Turns<Volume> {
  readonly #volumes: VolumeStore
  readonly #clock: Clock

  constructor(volumes: VolumeStore, clock: Clock) {
    super((volumeID) => volumes.find(volumeID))
    this.#volumes = volumes
    this.#clock = clock
  }

  /** In a turn that was begun for this volume. Undefined: the team has as many as it may have. */
  async insert(volume: Volume, most: number): Promise<InTurn<Volume> | undefined> {
    const { volumeID } = volume
    const isInserted = await insertOnce(this.#clock, {
      insert: () => this.#volumes.insert(volume, most),
      isThere: async () => (await this.#volumes.find(volumeID)) !== undefined,
    })
    return isInserted ? retryPassing(this.#clock, () => this.read(volumeID)) : undefined
  }

  /** Undefined: it is not being created any more. */
  markReady({ volumeID }: InTurn<Volume>): Promise<InTurn<Volume> | undefined> {
    return this.#move(volumeID, 'ready', () => this.#volumes.markReady(volumeID))
  }

  /** Its creation failed. Undefined: it is not being created any more. */
  async cancelCreation({ volumeID }: InTurn<Volume>): Promise<DeletingVolume | undefined> {
    const moved = await this.#move(volumeID, 'deleting', () => this.#volumes.cancelCreation(volumeID))
    return moved as DeletingVolume | undefined
  }

  /** Undefined: it is not ready any more. */
  async beginDeletion({
    volumeID,
  }: InTurn<Volume>): Promise<{ begun: DeletingVolume } | { usedBy: string[] } | undefined> {
    let usedBy: string[] | undefined
    const begun = await this.#move(volumeID, 'deleting', async () => {
      const result = await this.#volumes.beginDeletion(volumeID)
      usedBy = result && 'usedBy' in result ? result.usedBy : undefined
      return result
    })
    if (usedBy) return { usedBy }
    return begun && { begun: begun as DeletingVolume }
  }

  /** Removed already is success. */
  async forget({ volumeID }: DeletingVolume): Promise<void> {
    await retryPassing(this.#clock, () => this.#volumes.remove(volumeID))
  }

  async #move(
    volumeID: string,
    to: VolumeState,
    move: () => Promise<unknown>,
  ): Promise<InTurn<Volume> | undefined> {
    return retryPassing(this.#clock, async (attempt) => {
      const isMoved = (await move()) !== undefined
      if (!isMoved && attempt === 0) return undefined
      const row = await this.read(volumeID)
      return row?.state === to ? row : undefined
    })
  }
}
