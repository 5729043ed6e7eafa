/** Which node has what, by the rows of all nodes. */
import type { SandboxFinder } from '../sandbox/row/sandbox-store.ts'

/**
 * What a request is for, where one node alone can do it. A log is that of a sandbox, a template stands for its newest
 * build that is not finished, what is quarantined is a snapshot, and a node stands for itself.
 */
export type Owned = {
  kind: 'sandbox' | 'log' | 'build' | 'volume' | 'template' | 'quarantined' | 'node'
  id: string
}

export type Owner = {
  nodeID: string
  /** It is a paused sandbox without volumes whose snapshot is in the object store: any node can take it. */
  isMovable: boolean
}

/** The newest ready build that a template's tag stands for, on whichever node. */
export type LocatedBuild = {
  buildID: string
  cpuCount: number
  memoryMB: number
  /** Missing: none. */
  gpuCount?: number
  nodeID: string
  /** Its bytes are in the object store too. */
  isStored: boolean
}

export type UnfinishedCount = { sandboxes: number; builds: number }

export interface OwnerStore extends SandboxFinder {
  /** Undefined: there is no such thing, or it is a sandbox that has ended. */
  ownerOf(what: Owned): Promise<Owner | undefined>
  locateBuild(templateID: string, tagOrBuildID: string): Promise<LocatedBuild | undefined>
  /** Makes another node the owner of a build of this one that still waits. False: it does not any more. */
  giveBuild(buildID: string, from: string, to: string): Promise<boolean>
  /** The builds of a node that are ready, the newest thousand. */
  readyBuildsOf(nodeID: string): Promise<string[]>
  /** The nodes that have the team's volumes of these names; names that the team has no volume of are left out. */
  nodesOfVolumes(teamID: string, names: readonly string[]): Promise<string[]>
  /** The node on which an earlier request with this idempotency key was carried out. */
  nodeOfClaim(teamID: string, key: string): Promise<string | undefined>
  /** How many sandboxes of the team have not ended on these nodes, and how many of its builds have not. */
  countUnfinished(teamID: string, nodeIDs: readonly string[]): Promise<UnfinishedCount>
}
