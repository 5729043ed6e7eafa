/**
 * Turns on volumes, and the changes of their rows inside a turn. A change whose answer was lost is tried
 * again, and the row is read back: inside a turn nobody else changes it, so a row in the target state was
 * changed by it. If the outcome stays unknown, the change rejects with `unavailable`; then nothing may be
 * removed, and `VolumeService.reconcile` decides later.
 */
import type { Clock } from '../../lib/clock.ts'
import { insertOnce } from '../../lib/insert-once.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import { type InTurn, Turns } from '../../lib/turns.ts'
import type { LostVolumeStore } from './lost-volume-store.ts'
import type { Volume, VolumeState } from './volume.ts'
import type { VolumeStore } from './volume-store.ts'

/** A volume that nobody can use any more, so that its disk may be removed. */
export type DeletingVolume = InTurn<Volume> & { state: 'deleting' }

export const isDeleting = (row: InTurn<Volume>): row is DeletingVolume => row.state === 'deleting'

export class VolumeTurns extends Turns<Volume> {
  readonly #volumes: VolumeStore
  readonly #lost: LostVolumeStore
  readonly #clock: Clock

  constructor(volumes: VolumeStore, lost: LostVolumeStore, clock: Clock) {
    super((volumeID) => volumes.find(volumeID))
    this.#volumes = volumes
    this.#lost = lost
    this.#clock = clock
  }

  /** Call it in a turn that was begun for this volume. Undefined if the team has reached its limit. */
  async insert(volume: Volume, max: number): Promise<InTurn<Volume> | undefined> {
    const { volumeID } = volume
    const isInserted = await insertOnce(this.#clock, {
      insert: () => this.#volumes.insert(volume, max),
      isThere: async () => (await this.#volumes.find(volumeID)) !== undefined,
    })
    return isInserted ? retryPassing(this.#clock, () => this.read(volumeID)) : undefined
  }

  /** Undefined if the volume is no longer being created. */
  markReady({ volumeID }: InTurn<Volume>): Promise<InTurn<Volume> | undefined> {
    return this.#transition(volumeID, 'ready', () => this.#volumes.markReady(volumeID))
  }

  /** Moves a volume whose creation failed to `deleting`. Undefined if it is no longer being created. */
  async cancelCreation({ volumeID }: InTurn<Volume>): Promise<DeletingVolume | undefined> {
    const transitioned = await this.#transition(volumeID, 'deleting', () =>
      this.#volumes.cancelCreation(volumeID),
    )
    return transitioned as DeletingVolume | undefined
  }

  /** Undefined if the volume is no longer ready. */
  async beginDeletion({
    volumeID,
  }: InTurn<Volume>): Promise<{ begun: DeletingVolume } | { usedBy: string[] } | undefined> {
    let usedBy: string[] | undefined
    const begun = await this.#transition(volumeID, 'deleting', async () => {
      const result = await this.#volumes.beginDeletion(volumeID)
      usedBy = result && 'usedBy' in result ? result.usedBy : undefined
      return result
    })
    if (usedBy) return { usedBy }
    return begun && { begun: begun as DeletingVolume }
  }

  /** Undefined if there is no such lost volume. Succeeds if the volume was recovered already. */
  recover(volumeID: string, name: string): Promise<InTurn<Volume> | undefined> {
    return retryPassing(this.#clock, async () => {
      await this.#lost.recover(volumeID, name)
      const row = await this.read(volumeID)
      return row?.state === 'ready' ? row : undefined
    })
  }

  /** Succeeds if the row is removed already. */
  async forget({ volumeID }: DeletingVolume): Promise<void> {
    await retryPassing(this.#clock, () => this.#volumes.remove(volumeID))
  }

  async #transition(
    volumeID: string,
    to: VolumeState,
    transition: () => Promise<unknown>,
  ): Promise<InTurn<Volume> | undefined> {
    return retryPassing(this.#clock, async (attempt) => {
      const hasTransitioned = (await transition()) !== undefined
      if (!hasTransitioned && attempt === 0) return undefined
      const row = await this.read(volumeID)
      return row?.state === to ? row : undefined
    })
  }
}
