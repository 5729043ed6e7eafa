/** Stored entries of snapshots without an owner. */

/** A snapshot without an owner that stays on the disk in case somebody wants it back. */
export type QuarantinedSnapshot = {
  snapshotName: string
  /** The Warren whose disk has it. */
  nodeID: string
  /** The sandbox that the snapshot was taken of, if known. */
  sandboxID: string | null
  /** Why the snapshot is in quarantine, as a sentence for the operator. */
  reason: string
  since: number
}

export interface QuarantineStore {
  /** Changes nothing if the snapshot is in quarantine already. */
  insert(entry: QuarantinedSnapshot): Promise<void>
  find(snapshotName: string): Promise<QuarantinedSnapshot | undefined>
  /** Entries of one Warren, or of all, oldest first. */
  list(nodeID?: string): Promise<QuarantinedSnapshot[]>
  /**
   * Marks the snapshot for removal, so that nobody can recover it and `listRemovable` returns it. Does
   * nothing if it is not in quarantine.
   */
  markForRemoval(snapshotName: string): Promise<void>
  /**
   * Snapshots on the disk of one Warren that are marked for removal, or whose template was deleted through
   * another Warren. Nobody wants them back: that Warren removes them, and then their entries. They are not in
   * quarantine, so `find` and `list` do not return them.
   */
  listRemovable(nodeID: string): Promise<string[]>
  /** Removes the entry of a snapshot that is in quarantine or marked for removal. */
  remove(snapshotName: string): Promise<void>
}
