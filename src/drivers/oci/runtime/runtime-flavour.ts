/** What the two OCI runtimes do differently. The rest of the driver asks here, and never for a runtime's name. */

import type { DeviceNode } from '../device/gpus.ts'
import type { MountMove } from '../namespace/move-mounts.ts'
import type { ResourceLimit } from '../namespace/start-runtime.ts'
import type { CgroupUse } from '../process/cgroups.ts'
import type { Layout } from '../record/layout.ts'
import type { RuntimeName, SandboxRecord } from '../record/records.ts'
import type { AgentProgram } from './agent-program.ts'

/** What operators and users call the two kinds of walls. */
export type Isolation = 'gvisor' | 'container'

export type RuntimeFlavour = {
  readonly runtime: RuntimeName
  readonly isolation: Isolation
  /** The runtime writes a sandbox's memory to disk and reads it back, and for that it can pause the sandbox itself. */
  readonly keepsMemory: boolean
  /** There are several ways to catch system calls, of which the best one is found by trying. */
  readonly hasPlatforms: boolean
  /** The runtime lays a memory file system over an empty /tmp, outside the disk limit and lost to a copy of the disk. */
  readonly coversEmptyTmp: boolean
  /** The sandbox sees its own CPUs and memory in /proc; otherwise files of ours have to lie over the host's. */
  readonly showsOwnMachine: boolean
  /** The runtime can start a program whose file nobody inside may read. */
  readonly startsUnreadable: boolean
  /** The sandbox's processes are the host's own, so they run as users that no other sandbox has. */
  readonly hasOwnUsers: boolean
  /** The sandbox gets the limits that the runtime was started under. */
  readonly inheritsLimits: boolean
  /** Where the runtime looks for a network namespace without a network in its state folder; undefined: it needs none. */
  readonly emptyNetworkName: string | undefined
  readonly runFlags: readonly string[]
  /** Flags of every command for a sandbox that has a GPU. */
  readonly gpuFlags: readonly string[]
  /** Mounts that the runtime refuses to make in their place: once it has started the sandbox they are moved there. */
  readonly movedMounts: readonly MountMove[]
  /** What an operator does when the binary does not run. */
  remedy(binary: string): string
  /** Flags of every command, before the verb. */
  globalFlags(platform: string | null): string[]
  /**
   * Memory in MiB for the runtime itself, beside what the sandbox has. It is added after the start, because the
   * runtime shows the sandbox the limit that it was started under.
   */
  ownMemoryMB(memoryMB: number): number
  memoryUsedBytes(use: CgroupUse): number
  specParts(input: ContainerInput): SpecParts
}

export type Mount = { destination: string; type: string; source: string; options: string[] }

/** What the OCI configuration of a sandbox is made from. */
export type ContainerInput = {
  flavour: RuntimeFlavour
  layout: Layout
  record: SandboxRecord
  agent: AgentProgram
  /** The host's id of the sandbox's root. */
  firstID: number
  /** The user namespace to run in; undefined: the runtime makes one. */
  userNamespace: string | undefined
  /** A read-only /sys, for a runtime that does not show one of its own. */
  sysFolder: string
  /** What it gets of the machine's devices for its GPUs. */
  gpuNodes: readonly DeviceNode[]
  /** Swap can be accounted here, so it can be forbidden. */
  limitSwap: boolean
  /** Hard limit of open files of this process: no sandbox can have more. */
  openFilesLimit: number
  /** Threads and processes of the sandbox as a whole. */
  pidsLimit: number
}

/** The parts of the OCI configuration that differ. */
export type SpecParts = {
  rlimits: ResourceLimit[]
  mounts: Mount[]
  /** Added to those of /dev/pts. */
  devptsOptions: readonly string[]
  /** Threads and processes that the host allows the sandbox as a whole. */
  hostPidsLimit: number
  linux: Record<string, unknown>
}
