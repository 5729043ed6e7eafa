/** Finds out which node owns an object, from the rows of all nodes. */
import type { EarlierRequest, LostCreate, SandboxFinder } from '../sandbox/row/sandbox-store.ts'

/**
 * The object of a request that only one node can carry out. `log`: the log of a sandbox. `template`: its
 * newest unfinished build. `quarantined`: a snapshot in quarantine. `lost volume`: a volume to be recovered, or that was
 * recovered already. `node`: the node itself.
 */
export type Owned = {
  kind: 'sandbox' | 'log' | 'build' | 'volume' | 'template' | 'quarantined' | 'lost volume' | 'node'
  id: string
}

export type Owner = {
  nodeID: string
  /**
   * True for a paused sandbox without volumes whose snapshot is in the object store: any node can take it
   * over.
   */
  isMovable: boolean
}

/** The newest ready build of a template's tag, on any node. */
export type LocatedBuild = {
  buildID: string
  cpuCount: number
  memoryMB: number
  /** Missing: none. */
  gpuCount?: number
  nodeID: string
  /** The object store has its bytes too. */
  isStored: boolean
}

export type UnfinishedCount = { sandboxes: number; builds: number }

export interface OwnerStore extends SandboxFinder {
  /** Undefined if there is no such object, or if it is a sandbox that has ended. */
  ownerOf(what: Owned): Promise<Owner | undefined>
  locateBuild(templateID: string, tagOrBuildID: string): Promise<LocatedBuild | undefined>
  /** Makes another node the owner of a build that waits on this node. False if the build no longer waits. */
  giveBuild(buildID: string, from: string, to: string): Promise<boolean>
  /** The newest thousand ready builds of a node. */
  readyBuildsOf(nodeID: string): Promise<string[]>
  /** The nodes that have the team's volumes of these names. Names without a volume are ignored. */
  nodesOfVolumes(teamID: string, names: readonly string[]): Promise<string[]>
  /** The node that carried out an earlier request with this idempotency key. */
  nodeOfClaim(teamID: string, key: string): Promise<string | undefined>
  /**
   * Finds out what became of a create whose answer was lost, so that nothing can become of it later. Returns the request that
   * has the key if its sandbox was created, or if another node is creating it. Otherwise ends the row that the node is still
   * creating, which then stops what it started, or prevents it from inserting one, and releases the key.
   */
  giveUpCreate(lost: LostCreate): Promise<EarlierRequest | undefined>
  /** Counts the team's sandboxes and builds on these nodes that have not ended. */
  countUnfinished(teamID: string, nodeIDs: readonly string[]): Promise<UnfinishedCount>
}
