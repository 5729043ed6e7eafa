/** The machines of a cluster, as E2B's own operators see theirs. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'

const NodeStatus = Type.Union([
  Type.Literal('ready'),
  Type.Literal('draining'),
  Type.Literal('connecting'),
  Type.Literal('unhealthy'),
  Type.Literal('standby'),
])

const Disk = Type.Object({
  mountPoint: Type.String(),
  device: Type.String(),
  filesystemType: Type.String(),
  usedBytes: Type.Integer(),
  totalBytes: Type.Integer(),
})

export const Node = Type.Object({
  id: Type.String(),
  serviceInstanceID: Type.String(),
  clusterID: Type.String(),
  /** Where the other nodes reach it, so that an operator can tell which machine it is. Not E2B's; absent on one machine. */
  address: Type.Optional(Type.String()),
  /** What is wrong with it as seen from the node that was asked, and what to do. Not E2B's. */
  problem: Type.Optional(Type.String()),
  version: Type.String(),
  commit: Type.String(),
  status: NodeStatus,
  statusChangedAt: DateTime,
  sandboxCount: Type.Integer(),
  sandboxStartingCount: Type.Integer(),
  createSuccesses: Type.Integer(),
  createFails: Type.Integer(),
  machineInfo: Type.Object({
    cpuFamily: Type.String(),
    cpuModel: Type.String(),
    cpuModelName: Type.String(),
    cpuArchitecture: Type.String(),
  }),
  metrics: Type.Object({
    allocatedCPU: Type.Integer(),
    cpuPercent: Type.Integer(),
    cpuCount: Type.Integer(),
    allocatedMemoryBytes: Type.Integer(),
    memoryUsedBytes: Type.Integer(),
    memoryTotalBytes: Type.Integer(),
    hugePagesTotal: Type.Integer(),
    hugePagesUsed: Type.Integer(),
    hugePagesReserved: Type.Integer(),
    hugePageSizeBytes: Type.Integer(),
    disks: Type.Array(Disk),
  }),
})
export type Node = Static<typeof Node>

export const NodeDetail = Type.Object({ ...Node.properties, cachedBuilds: Type.Array(Type.String()) })
export type NodeDetail = Static<typeof NodeDetail>

export const NodePath = Type.Object({ nodeID: Type.String() })

export const NodeStatusChange = Type.Object({ status: NodeStatus, clusterID: Type.Optional(Type.String()) })

/** Number of sandboxes, builds and volumes that were lost with a forgotten node. */
export const ForgottenNode = Type.Object({
  sandboxes: Type.Integer(),
  builds: Type.Integer(),
  volumes: Type.Integer(),
})
export type ForgottenNode = Static<typeof ForgottenNode>
