/** What the rows say of bytes that the object store has: of builds and of paused sandboxes, by which others find them. */

import type { MemoryNeeds } from '../ports/driver.ts'
import type { ObjectKey } from '../ports/object-store.ts'
import type { CopyFinder } from '../sandbox/row/sandbox-store.ts'

/** When the object store got the bytes, and what the memory in them needs; null: there is none. */
export type ArchivedBytes = { at: number; needs: MemoryNeeds | null }

/** A paused sandbox of any node, in the run whose bytes the object store may have. */
export type PausedSandbox = {
  sandboxID: string
  runID: string
  /** The name of its snapshot on the disk of its node. */
  snapshotName: string
  /** The node that owns it. */
  nodeID: string
  /** Null: only the disk of its node has the snapshot. */
  archived: ArchivedBytes | null
}

export type ArchivableBuild = { buildID: string; layers: string[]; snapshotName: string | null }

export interface ArchiveStore extends CopyFinder {
  /** In any state of archiving, on any node. Undefined: there is no such sandbox, or it is not paused. */
  findPaused(sandboxID: string): Promise<PausedSandbox | undefined>
  /** Paused sandboxes of this node whose bytes are on its disk alone; those that stand still in memory do not count. */
  listUnarchived(): Promise<PausedSandbox[]>
  /** False: the sandbox is not paused on this node in that run any more, so the bytes are not its own. */
  markSandbox(at: { sandboxID: string; runID: string }, archived: ArchivedBytes): Promise<boolean>
  /**
   * This node owns the sandbox from now on, if it is still paused in that run, owned by that node, archived, and without
   * volumes. False when it is not. Its snapshot has the given name from now on, which must be a new one: under the earlier
   * name a disk may have files of another moment.
   */
  take(at: { sandboxID: string; runID: string; nodeID: string }, snapshotName: string): Promise<boolean>
  /** Sandboxes of all nodes that a drain has paused, and that are to run again; those that end first come first. */
  listDepartures(): Promise<PausedSandbox[]>
  /** Ready builds of this node whose bytes are on its disk alone. */
  listUnarchivedBuilds(): Promise<ArchivableBuild[]>
  /** Ready builds of other nodes that the object store has, the newest thousand. */
  listForeignBuilds(): Promise<ArchivableBuild[]>
  /** From now on other nodes start sandboxes of the build. False: it is not there, or not ready, any more. */
  markBuild(buildID: string, archived: ArchivedBytes): Promise<boolean>
  /** The object store lacks some of its bytes after all: until they are there again, only its own node uses it. */
  unmarkBuild(buildID: string): Promise<void>
  /** What memory in the snapshot of an archived build needs. Undefined: the build is not archived. */
  findArchivedBuild(buildID: string): Promise<ArchivedBytes | undefined>
  /** What rows of all nodes still need of the object store, or may be about to need. */
  listNeeded(): Promise<NeededBytes>
  /** This node is about to remove these objects: from now on nobody relies on them. */
  condemn(keys: readonly ObjectKey[], at: number): Promise<void>
  /** Those of the keys that any node has condemned. */
  findCondemned(keys: readonly ObjectKey[]): Promise<ObjectKey[]>
  /** What this node, or one that was forgotten, has condemned and not acquitted yet, and when. */
  listCondemned(): Promise<{ key: ObjectKey; at: number }[]>
  /** No removal of these by this node is under way any more. What other nodes have condemned stays so. */
  acquit(keys: readonly ObjectKey[]): Promise<void>
}

export type NeededBytes = {
  /** Sandboxes that have not ended, each with its run. */
  runs: { sandboxID: string; runID: string }[]
  layers: string[]
  /** Names of the snapshots of builds. */
  snapshotNames: string[]
}
