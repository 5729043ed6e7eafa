/** What every simulated node reports. */
import type { NodeFacts, NodeLoad } from '../../src/core/cluster/node.ts'
import { idleLoad } from '../support/idle-load.ts'

/** All machines are alike, and placement is not simulated. */
export const sameFacts: NodeFacts = {
  version: '1',
  isolation: 'gvisor',
  keepsArriving: true,
  cpuCount: 64,
  memoryMB: 1e6,
  cpu: { architecture: 'x64', family: '1', model: '1', modelName: 'simulated', features: [] },
}
export const noLoad: NodeLoad = {
  ...idleLoad,
  freeCPU: 64,
  freeMemoryMB: 1e6,
  availableMemoryMB: 1e6,
  disk: { mountPoint: '/', filesystemType: 'ext4', device: 'disk', usedBytes: 0, totalBytes: 1e12 },
}
