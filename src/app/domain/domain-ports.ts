/** The ports of the domain, and the operator's settings for it. */
import type { AgentPort } from '../../core/ports/agent.ts'
import type { Driver } from '../../core/ports/driver.ts'
import type { Images, RemoteLayers } from '../../core/ports/images.ts'
import type { LogEntry, LogStore } from '../../core/ports/logs.ts'
import type { ObjectStore, PackStore } from '../../core/ports/object-store.ts'
import type { BuildSandboxes } from '../../core/sandbox/builds/build-sandboxes.ts'
import type { AdmissionSettings, MachineCapacity } from '../../core/sandbox/capacity/admission.ts'
import type { DiskReserve } from '../../core/sandbox/capacity/disk-guard.ts'
import type { DiskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import type { LauncherParts } from '../../core/sandbox/launch/launcher.ts'
import type { SandboxEgressParts } from '../../core/sandbox/network/egress.ts'
import type { RouteTable } from '../../core/sandbox/network/routes.ts'
import type { SnapshotFolders, SnapshotStore } from '../../core/sandbox/snapshots/snapshot-store.ts'
import type { WarmPoolParts, WarmPoolSettings } from '../../core/sandbox/warm-pool/warm-pool.ts'
import type { Builder, BuildFiles } from '../../core/template/builder.ts'
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import type { VolumeSettings } from '../../core/volume/service.ts'
import type { VolumeDisks } from '../../core/volume/volume-files.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Tracer } from '../../lib/tracer.ts'
import type { Stores } from '../../store/stores.ts'

export type DomainPorts = {
  stores: Stores
  driver: Driver
  agent: AgentPort
  snapshotFolders: SnapshotFolders
  volumeDisks: VolumeDisks
  images: Pick<Images, 'prune' | 'missing' | 'digestOf'>
  buildFiles: BuildFiles
  /** Creates the builder over the parts of the domain that it needs. */
  createBuilder: (tools: BuilderTools) => Builder
  /** The templates that Warren can build itself. */
  recipes: readonly BuiltInRecipe[]
  logs: LogStore
  /** The routes by which the edge finds running sandboxes. */
  routes: RouteTable
  /** Adds to the log of a sandbox in the background. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  clock: Clock
  log: Log
  machine: MachineCapacity
  /** Undefined without an object store; everything then stays on this machine's disk. */
  objectStorage?: { objects: ObjectStore; packs: PackStore; layers: RemoteLayers } | undefined
  /** Free bytes on the disk of the data folder. */
  freeBytes: () => Promise<number>
  /** Undefined if there is no reserve. */
  diskReserve?: DiskReserve
  tracer?: Tracer
} & Pick<SandboxEgressParts, 'gate' | 'authority' | 'extraCA' | 'lookup' | 'isClosed'> &
  Pick<LauncherParts, 'agentProgram' | 'rootsOf'> &
  Pick<WarmPoolParts, 'onAcquire'>

export type DomainSettings = {
  /** The seed of every sandbox's tokens. */
  seed: string
  /** Identifies this Warren among those that share its database. */
  nodeID: string
  /** How long a snapshot without an owner stays in quarantine. */
  quarantineMs: number
  warmPool: WarmPoolSettings
  admission: AdmissionSettings
  /** Bytes of the disk that must stay free. */
  minFreeBytes: number
  /** The levels of free disk space; unset: nobody watches the disk. */
  diskLevels?: DiskLevels
  /** Bytes to store of the log of each build. */
  maxBuildLogBytes: number
  volumes: VolumeSettings
}

export type BuilderTools = {
  buildSandboxes: BuildSandboxes
  snapshots: SnapshotStore
  freeDiskSpace: () => Promise<boolean>
}
