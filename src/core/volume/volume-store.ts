import type { Volume } from './volume.ts'

/** The volumes whose disks are on this node; only `list` covers all nodes. */
export interface VolumeStore {
  /**
   * Inserts the volume if the team has fewer than `max`, atomically, so that concurrent creates cannot
   * exceed the limit together. False if the team has reached the limit. Rejects with `already_exists` if the
   * team has the name.
   */
  insert(volume: Volume, max: number): Promise<boolean>
  /** Moves a volume from `creating` to `ready`. Undefined if it is not in that state. */
  markReady(volumeID: string): Promise<Volume | undefined>
  /** Finds a volume in any state. */
  find(volumeID: string): Promise<Volume | undefined>
  /** The team's ready volumes on all nodes, oldest first. */
  list(teamID: string): Promise<Volume[]>
  /** The team's ready volumes on this node, oldest first. */
  listHere(teamID: string): Promise<Volume[]>
  /** The volumes of all teams, in any state. */
  listAll(): Promise<Volume[]>
  /**
   * Moves a ready volume to `deleting`, unless sandboxes that have not ended use it; atomic against inserts
   * of sandboxes. Undefined if it is not ready.
   */
  beginDeletion(volumeID: string): Promise<{ begun: true } | { usedBy: string[] } | undefined>
  /** Moves a volume from `creating` to `deleting`. Undefined if it is not in that state. */
  cancelCreation(volumeID: string): Promise<Volume | undefined>
  /** Removes the row of a volume that is being deleted. Succeeds if it is removed already. */
  remove(volumeID: string): Promise<void>
}
