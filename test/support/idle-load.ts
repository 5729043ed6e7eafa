import type { NodeLoad } from '../../src/core/cluster/node.ts'

/** What a node without sandboxes tells the others of its load. */
export const idleLoad: NodeLoad = {
  freeCPU: 8,
  freeMemoryMB: 8192,
  availableMemoryMB: 4096,
  allocatedCPU: 0,
  allocatedMemoryMB: 0,
  sandboxes: 0,
  starting: 0,
  createSuccesses: 0,
  createFails: 0,
  cpuPercent: 0,
  disk: { mountPoint: '/', filesystemType: 'ext4', device: '/dev/vda', usedBytes: 1, totalBytes: 2 },
  warmTemplates: [],
  buildsAtHand: [],
}
