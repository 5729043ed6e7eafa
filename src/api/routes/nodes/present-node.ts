import type { Node, NodeDetail } from '../../../contract/rest/node.ts'
import { isUnreachable } from '../../../core/cluster/node.ts'
import type { ListedNode } from '../../../core/cluster/node-directory.ts'
import { dateTime } from '../../present.ts'

const mebibyte = 1024 * 1024
/** All nodes that share a database are one cluster. */
const clusterID = '00000000-0000-0000-0000-000000000000'

/** Warren gives sandboxes no huge pages, and keeps everything on one disk. */
export function presentNode(node: ListedNode): Node {
  const { nodeID, runID, address, problem, facts, load, status, statusChangedAt } = node
  const { cpu } = facts
  return {
    id: nodeID,
    serviceInstanceID: runID,
    clusterID,
    version: facts.version,
    commit: facts.version,
    ...(address && { address }),
    ...(problem !== undefined && { problem }),
    status: isUnreachable(node) ? 'unhealthy' : status,
    statusChangedAt: dateTime(statusChangedAt),
    sandboxCount: load.sandboxes,
    sandboxStartingCount: load.starting,
    createSuccesses: load.createSuccesses,
    createFails: load.createFails,
    machineInfo: {
      cpuFamily: cpu.family,
      cpuModel: cpu.model,
      cpuModelName: cpu.modelName,
      cpuArchitecture: cpu.architecture,
    },
    metrics: {
      allocatedCPU: load.allocatedCPU,
      cpuPercent: load.cpuPercent,
      cpuCount: facts.cpuCount,
      allocatedMemoryBytes: load.allocatedMemoryMB * mebibyte,
      memoryUsedBytes: (facts.memoryMB - load.availableMemoryMB) * mebibyte,
      memoryTotalBytes: facts.memoryMB * mebibyte,
      hugePagesTotal: 0,
      hugePagesUsed: 0,
      hugePagesReserved: 0,
      hugePageSizeBytes: 0,
      disks: [load.disk],
    },
  }
}

export const presentNodeDetail = (node: ListedNode, cachedBuilds: string[]): NodeDetail => ({
  ...presentNode(node),
  cachedBuilds,
})
