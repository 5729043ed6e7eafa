/** The Warrens of a cluster, as the database that they share knows them. */
import type { GpuCapacity } from '../ports/driver.ts'

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
  /** Missing: its sandboxes have no GPUs, or it is of a version that tells nothing of them. */
  gpus?: Pick<GpuCapacity, 'free' | 'mostPerSandbox'>
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

/** A node gives a sign of life this often. */
export const renewEveryMs = 2000
/** A node that was silent for longer is away. */
export const awayAfterMs = 10_000

export const isAway = ({ silentMs }: Pick<ClusterNode, 'silentMs'>): boolean => silentMs > awayAfterMs
