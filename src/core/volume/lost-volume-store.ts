import type { Volume } from './volume.ts'

/** A volume whose node was forgotten. Its disk may come back with the node's machine, or be copied to another one. */
export type LostVolume = Omit<Volume, 'state'> & {
  /** The node that has the disk, or had it last. */
  nodeID: string
  lostAt: number
  /** When a node saw the disk again. Null: no node has the disk. */
  foundAt: number | null
}

/** The lost volumes of all nodes. */
export interface LostVolumeStore {
  /** Ordered by the time of the loss. */
  list(): Promise<LostVolume[]>
  find(volumeID: string): Promise<LostVolume | undefined>
  /**
   * Records that this node has the disk, unless another node has it already. Returns the volume, or undefined
   * if no such volume was lost.
   */
  noteFound(volumeID: string, at: number): Promise<LostVolume | undefined>
  /** Corrects volumes that this node had found and whose disks are not among these any more. */
  noteMissing(disks: ReadonlySet<string>): Promise<void>
  /**
   * Makes it a ready volume of its team on this node, atomically. False if no such volume was lost. Rejects
   * with `already_exists` if the team has another volume with the name.
   */
  recover(volumeID: string, name: string): Promise<boolean>
}
