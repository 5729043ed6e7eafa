/** What is remembered of snapshots that nothing owns. */

/** A snapshot that nothing owns, kept in case that somebody wants it back. */
export type QuarantinedSnapshot = {
  snapshotName: string
  /** The Warren on whose disk it lies. */
  nodeID: string
  /** The sandbox it was taken of, where that is known. */
  sandboxID: string | null
  /** Why it is here, as a sentence for the operator. */
  reason: string
  since: number
}

export interface QuarantineStore {
  /** For a snapshot that is in quarantine already, nothing changes. */
  insert(entry: QuarantinedSnapshot): Promise<void>
  find(snapshotName: string): Promise<QuarantinedSnapshot | undefined>
  /** Those on the disk of one Warren, or of all, the oldest first. */
  list(nodeID?: string): Promise<QuarantinedSnapshot[]>
  /**
   * From now on nobody can have the snapshot back: it is one of `listDiscarded`. Nothing happens where it is not in
   * quarantine.
   */
  discard(snapshotName: string): Promise<void>
  /**
   * Snapshots on the disk of one Warren that are being removed, or whose template was deleted through another. Nobody
   * wants them back: that Warren removes them, and then their entry. They are not in quarantine, so neither `find` nor
   * `list` knows them.
   */
  listDiscarded(nodeID: string): Promise<string[]>
  /** Removes the entry of a snapshot in quarantine, or of a discarded one. */
  remove(snapshotName: string): Promise<void>
}
