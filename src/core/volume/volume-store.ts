import type { Volume } from './volume.ts'

/** The volumes whose disks are on this node, but for `list`. */
export interface VolumeStore {
  /**
   * Inserts the volume if the team has fewer than `most`, in one step that parallel creates cannot pass together; false
   * when the team has as many. Rejects with `already_exists` when the team has the name.
   */
  insert(volume: Volume, most: number): Promise<boolean>
  /** One that was being created is ready. Undefined when it is not there in that state. */
  markReady(volumeID: string): Promise<Volume | undefined>
  /** In any state. */
  find(volumeID: string): Promise<Volume | undefined>
  /** The team's volumes that are ready, on all nodes, the oldest first. */
  list(teamID: string): Promise<Volume[]>
  /** The same of this node alone. */
  listHere(teamID: string): Promise<Volume[]>
  /** The volumes of all teams, in any state. */
  listAll(): Promise<Volume[]>
  /**
   * A ready volume is being deleted from now on, unless sandboxes that have not ended use it; none can be inserted at
   * that moment. Undefined when it is not ready.
   */
  beginDeletion(volumeID: string): Promise<{ begun: true } | { usedBy: string[] } | undefined>
  /** One that was being created is being deleted from now on. Undefined when it is not there in that state. */
  cancelCreation(volumeID: string): Promise<Volume | undefined>
  /** Forgets a volume that is being deleted. Forgotten already is success. */
  remove(volumeID: string): Promise<void>
}
