/** The Warrens of a cluster, as the database that they share knows them. */
import type { Sandbox } from '../sandbox/sandbox.ts'

/** `draining`: it keeps what it has and gets nothing new. */
export type NodeStatus = 'ready' | 'draining'

/** What holds for the life of a Warren's process. */
export type NodeFacts = {
  version: string
  isolation: 'gvisor' | 'container'
  cpu: { architecture: string; family: string; model: string; modelName: string; features: readonly string[] }
  cpuCount: number
  memoryMB: number
}

/** What a node says of itself with every sign of life. */
export type NodeLoad = {
  /** What it may still promise to sandboxes, and how much of its memory nothing uses. */
  freeCPU: number
  freeMemoryMB: number
  availableMemoryMB: number
  /** What its sandboxes were promised. */
  allocatedCPU: number
  allocatedMemoryMB: number
  sandboxes: number
  starting: number
  createSuccesses: number
  createFails: number
  cpuPercent: number
  disk: { mountPoint: string; filesystemType: string; device: string; usedBytes: number; totalBytes: number }
  /** Templates of which a sandbox waits in its warm pool. */
  warmTemplates: readonly string[]
  /** Builds of other nodes whose layers and snapshots lie on its disk. */
  buildsAtHand: readonly string[]
}

export type ClusterNode = {
  nodeID: string
  /** A new one for each process of the node. */
  runID: string
  /** Where peers reach it: host:port. */
  address: string
  status: NodeStatus
  statusChangedAt: number
  facts: NodeFacts
  load: NodeLoad
  /** How long ago it gave a sign of life, by the clock of the database. */
  silentMs: number
}

export type JoiningNode = Pick<ClusterNode, 'nodeID' | 'runID' | 'address' | 'facts' | 'load'>

/** A node gives a sign of life this often. */
export const renewEveryMs = 2000
/** A node that was silent for longer is away. */
export const awayAfterMs = 10_000

export const isAway = ({ silentMs }: Pick<ClusterNode, 'silentMs'>): boolean => silentMs > awayAfterMs

/** What was ended with the node that had it. */
export type ForgottenNode = { sandboxes: number; builds: number; volumes: number }

export interface NodeStore {
  /** False: another process that has given a sign of life within `awayAfterMs` has this id. */
  join(node: JoiningNode): Promise<boolean>
  /** A sign of life. Undefined: the node was forgotten, or another process has its id. */
  renew(node: Pick<JoiningNode, 'nodeID' | 'runID' | 'load'>): Promise<NodeStatus | undefined>
  /** The process ends: the node is away from now on, and no longer than since now. */
  leave(node: Pick<JoiningNode, 'nodeID' | 'runID'>): Promise<void>
  find(nodeID: string): Promise<ClusterNode | undefined>
  /** By id. */
  list(): Promise<ClusterNode[]>
  /** False: there is no such node. */
  setStatus(nodeID: string, status: NodeStatus): Promise<boolean>
  /**
   * Removes an away node. What ran on it ends as `lost`; so do its paused sandboxes, its builds and its volumes, unless
   * other nodes can have them. Undefined: there is no such node, or it has given a sign of life within `silentForMs`.
   */
  forget(nodeID: string, at: number, silentForMs: number): Promise<ForgottenNode | undefined>
  /** Keeps the value under the name unless one is there; resolves with the one that is there then. */
  share(name: string, value: string): Promise<string>
}

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
  nodeID: string
  /** Its bytes are in the object store too. */
  isStored: boolean
}

export type UnfinishedCount = { sandboxes: number; builds: number }

export interface OwnerStore {
  /** Undefined: there is no such thing, or it is a sandbox that has ended. */
  ownerOf(what: Owned): Promise<Owner | undefined>
  locateBuild(templateID: string, tagOrBuildID: string): Promise<LocatedBuild | undefined>
  /** A sandbox of any node, as its row says; only its owner may act on it. */
  findSandbox(sandboxID: string): Promise<Sandbox | undefined>
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
  /** Which of these are the team's, ended ones included. */
  sandboxesOfTeam(teamID: string, sandboxIDs: readonly string[]): Promise<string[]>
}
