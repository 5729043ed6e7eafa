/**
 * The differences between the two OCI runtimes. The rest of the driver asks here, and never for a runtime's
 * name.
 */

import type { AgentProgram } from '../../../core/ports/agent-program.ts'
import type { DeviceNode } from '../../host/device/gpus.ts'
import type { MountMove } from '../../host/namespace/move-mounts.ts'
import type { ResourceLimit } from '../../host/namespace/start-runtime.ts'
import type { CgroupUse } from '../../host/process/cgroups.ts'
import type { Layout } from '../../host/record/layout.ts'
import type { RuntimeName, SandboxRecord } from '../../host/record/records.ts'

/** The two kinds of isolation, as operators and users know them. */
export type OciIsolation = 'gvisor' | 'container'

export type RuntimeFlavour = {
  readonly runtime: RuntimeName
  readonly isolation: OciIsolation
  /** The runtime can write a sandbox's memory to disk and restore it, and can pause the sandbox for that. */
  readonly keepsMemory: boolean
  /** The runtime has several platforms. Warren measures them and takes the best. */
  readonly hasPlatforms: boolean
  /**
   * The runtime mounts a memory file system over an empty /tmp, which escapes the disk limit and is missing
   * in a copy of the disk.
   */
  readonly coversEmptyTmp: boolean
  /**
   * The sandbox sees its own CPUs and memory in /proc; otherwise our files must be mounted over the host's.
   */
  readonly showsOwnMachine: boolean
  /** The runtime can start a program whose file nobody inside may read. */
  readonly startsUnreadable: boolean
  /** The sandbox's processes are the host's own, so they run as users that no other sandbox has. */
  readonly hasOwnUsers: boolean
  /** The sandbox inherits the limits under which the runtime was started. */
  readonly inheritsLimits: boolean
  /** Capabilities are those of the sandbox's own kernel and not of the host's, so root inside gets nearly all of them. */
  readonly hasOwnKernel: boolean
  /**
   * The name under which the runtime looks for an empty network namespace in its state folder; undefined if
   * it needs none.
   */
  readonly emptyNetworkName: string | undefined
  readonly runFlags: readonly string[]
  /** Flags of every command for a sandbox that has a GPU. */
  gpuFlags(borrowedInterface: string | undefined): readonly string[]
  /** Mounts that the runtime refuses to make at their target: they are moved there after the start of the sandbox. */
  readonly movedMounts: readonly MountMove[]
  /** What an operator should do if the binary does not run. */
  remedy(binary: string): string
  /** Flags of every command, before the verb. */
  globalFlags(platform: string | null): string[]
  /**
   * Memory in MiB for the runtime itself, beside the sandbox's. It is added after the start, because the
   * runtime shows the sandbox the limit under which it was started.
   */
  ownMemoryMB(memoryMB: number): number
  memoryUsedBytes(use: CgroupUse): number
  specParts(input: ContainerInput): SpecParts
}

export type Mount = { destination: string; type: string; source: string; options: string[] }

/** The input for the OCI configuration of a sandbox. */
export type ContainerInput = {
  flavour: RuntimeFlavour
  layout: Layout
  record: SandboxRecord
  agent: AgentProgram
  /** The host ID of the sandbox's root user. */
  firstID: number
  /** The user namespace to run in; undefined: the runtime makes one. */
  userNamespace: string | undefined
  /** Device nodes of the machine that the sandbox gets for its GPUs. */
  gpuNodes: readonly DeviceNode[]
  /** The kernel accounts for swap here, so it can be forbidden. */
  limitSwap: boolean
  /** The hard limit for open files of this process: no sandbox can have more. */
  openFilesLimit: number
  /** Limit for threads and processes of the whole sandbox. */
  pidsLimit: number
}

/** The parts of the OCI configuration that differ. */
type SpecParts = {
  rlimits: ResourceLimit[]
  mounts: Mount[]
  /** Added to those of /dev/pts. */
  devptsOptions: readonly string[]
  /** The host's limit for threads and processes of the whole sandbox. */
  hostPidsLimit: number
  linux: Record<string, unknown>
}
