/** The Warrens of a cluster, as their shared database knows them. */
import { newUUID } from '../../lib/ids.ts'
import type { GpuCapacity } from '../ports/gpu.ts'

/** `draining`: the node gets no new sandboxes and hands over those it has. */
export type NodeStatus = 'ready' | 'draining'

/** Facts that do not change while a Warren's process lives. */
export type NodeFacts = {
  version: string
  /** Nodes with the same name start each other's memory. */
  isolation: string
  cpu: { architecture: string; family: string; model: string; modelName: string; features: readonly string[] }
  cpuCount: number
  memoryMB: number
  /** Missing: its version may sweep objects from which the memory of a running sandbox still arrives. */
  keepsArriving?: true
}

/** The report of a node with every sign of life. */
export type NodeLoad = {
  /** CPU and memory that can still be allocated, and memory that nothing uses. */
  freeCPU: number
  freeMemoryMB: number
  availableMemoryMB: number
  /** CPU and memory allocated to sandboxes. */
  allocatedCPU: number
  allocatedMemoryMB: number
  sandboxes: number
  starting: number
  createSuccesses: number
  createFails: number
  cpuPercent: number
  disk: { mountPoint: string; filesystemType: string; device: string; usedBytes: number; totalBytes: number }
  /** Missing if the node's sandboxes have no GPUs, or if its version does not report them. */
  gpus?: Pick<GpuCapacity, 'free' | 'mostPerSandbox'>
  /** Templates that have a sandbox in the warm pool. */
  warmTemplates: readonly string[]
  /** Builds of other nodes whose layers and snapshots are on this node's disk. */
  buildsAtHand: readonly string[]
  /** By how much its clock is ahead of the database's at least. Missing until it is known, or from an older version. */
  clockOffsetMs?: number
}

export type ClusterNode = {
  nodeID: string
  /** New for each process of the node (`newNodeRunID`). */
  runID: string
  /** The host:port at which peers reach it. */
  address: string
  status: NodeStatus
  statusChangedAt: number
  facts: NodeFacts
  load: NodeLoad
  /** Time since the last sign of life, by the clock of the database. */
  silentMs: number
}

/** How often a node gives a sign of life. */
export const renewEveryMs = 2000
/** A node that is silent for longer is away. */
export const unreachableAfterMs = 10_000

export const isUnreachable = ({ silentMs }: Pick<ClusterNode, 'silentMs'>): boolean =>
  silentMs > unreachableAfterMs

/**
 * `folderID` names the data folder on this boot of its machine, in letters and digits. The folder's lock lets one process at a
 * time have it, so an earlier process with the same folder has ended, whenever its last sign of life was.
 */
export const newNodeRunID = (folderID: string): string => `${folderID}.${newUUID()}`

/** Undefined for a process of an earlier version. */
export function folderIDOf(runID: string): string | undefined {
  const [folderID, process] = runID.split('.')
  return process === undefined ? undefined : folderID
}
