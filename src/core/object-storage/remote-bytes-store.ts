/**
 * Rows of builds and paused sandboxes, as far as they say which bytes the object store has. Other nodes find
 * the bytes by them.
 */

import type { InTurn } from '../../lib/turns.ts'
import type { MemoryNeeds } from '../ports/driver.ts'
import type { ObjectKey } from '../ports/object-store.ts'
import type { CopyFinder } from '../sandbox/row/sandbox-store.ts'

export type RemoteBytes = {
  at: number
  /** What the memory requires of a machine. Null: there is no memory. */
  needs: MemoryNeeds | null
  /** The checksum of the pack's index, which has the checksums of all its bytes. Earlier releases did not record it. */
  index?: string
}

/** A paused sandbox of any node, with the run whose snapshot the object store may have. */
export type PausedSandbox = {
  sandboxID: string
  runID: string
  /** As in the row. */
  version: number
  /** The name of the snapshot on the disk of the owning node. */
  snapshotName: string
  /** The node that owns it. */
  nodeID: string
  /** Null if only the disk of the owning node has the snapshot. */
  stored: RemoteBytes | null
}

export type StorableBuild = {
  buildID: string
  layers: string[]
  snapshotName: string | null
  /** It is stored, but another node did not find its bytes. */
  isDoubted?: boolean
}

export interface RemoteBytesStore extends CopyFinder {
  /** Finds a paused sandbox of any node, stored or not. Undefined if it does not exist or is not paused. */
  findPaused(sandboxID: string): Promise<PausedSandbox | undefined>
  /**
   * Paused sandboxes of this node whose snapshots only its disk has. Sandboxes that are frozen in memory are
   * left out.
   */
  listUnstored(): Promise<PausedSandbox[]>
  /** False if the sandbox is no longer paused on this node in this run, so that the bytes are not its own. */
  markSandbox(at: { sandboxID: string; runID: string }, stored: RemoteBytes): Promise<boolean>
  /**
   * Makes this node the owner if the row is still the one that was read in the turn, and the sandbox can run on any node: the object store
   * has its snapshot and its template, and it has no volumes. Returns false otherwise. The snapshot gets the given name, which must be new: under the
   * earlier name a disk may have files of another moment.
   */
  claim(at: InTurn<PausedSandbox>, snapshotName: string): Promise<boolean>
  /**
   * Sandboxes of all nodes that a drain has paused and that are to run again, ordered by the end of their
   * timeout.
   */
  listDepartures(): Promise<PausedSandbox[]>
  /** Ready builds of this node whose bytes only its disk has, and those of which that is doubted. */
  listUnstoredBuilds(): Promise<StorableBuild[]>
  /** The newest thousand ready builds of other nodes that the object store has. */
  listForeignBuilds(): Promise<StorableBuild[]>
  /** Gives the layers of a build of this node other names, which are the same files. False if the build does not have these names any more. */
  renameLayers(buildID: string, from: readonly string[], to: readonly string[]): Promise<boolean>
  /**
   * Lets other nodes start sandboxes of the build. False if the build no longer exists or is no longer ready.
   */
  markBuild(buildID: string, stored: RemoteBytes): Promise<boolean>
  /**
   * Records that this node does not find bytes of a stored build in the object store. Its settings may be wrong, so the node that
   * built it looks for itself; for all others the build stays stored.
   */
  doubtBuild(buildID: string, at: number): Promise<void>
  /**
   * Records that the node that built it has seen that the object store lacks bytes of the build. Only that node uses it until
   * they are stored again.
   */
  unmarkBuild(buildID: string): Promise<void>
  /**
   * What the memory in a stored build's snapshot requires of a machine. Undefined if the build is not stored.
   */
  findStoredBuild(buildID: string): Promise<RemoteBytes | undefined>
  /** Keys of some objects that the object store has by the rows of all nodes: of the paused sandboxes and builds stored last. */
  listSomeStored(): Promise<ObjectKey[]>
  /** The objects that rows of all nodes need, or may soon need. */
  listNeeded(): Promise<NeededBytes>
  /** Announces that this node will remove these objects. Nobody may rely on them from now on. */
  condemn(keys: readonly ObjectKey[], at: number): Promise<void>
  /** Returns those of the keys that any node has condemned. */
  findCondemned(keys: readonly ObjectKey[]): Promise<ObjectKey[]>
  /** Keys that this node or a forgotten node has condemned and not acquitted, each with the time. */
  listCondemned(): Promise<{ key: ObjectKey; at: number }[]>
  /**
   * Records that this node is not removing these objects any more. Keys that other nodes condemned stay
   * condemned.
   */
  acquit(keys: readonly ObjectKey[]): Promise<void>
}

export type NeededBytes = {
  /** Sandboxes that have not ended, each with its run and, if its memory still arrives, the run that this is from. */
  runs: { sandboxID: string; runID: string }[]
  layers: string[]
  /** Names of the snapshots of builds. */
  snapshotNames: string[]
}
