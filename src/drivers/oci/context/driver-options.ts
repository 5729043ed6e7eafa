import type { MachineGpus } from '../../host/device/gpus.ts'
import type { FlowShares } from '../../host/network/flow-shares.ts'
import type { PlatformTrial } from '../runtime/platforms.ts'
import type { OciIsolation } from '../runtime/runtime-flavour.ts'

export type OciDriverOptions = {
  isolation: OciIsolation
  /** The program of the runtime that belongs to the isolation: runsc or runc. */
  runtimeBinary: string
  dataFolder: string
  /** Six characters of a-z and 0-9 that tell Warrens on one machine apart, from `instanceOf(dataFolder)`. */
  instance: string
  subnet: string
  /** The folders of all agents that sandboxes are started with. Slots are made with these folders in sight. */
  agentFolders: readonly string[]
  /** IPv4 addresses for /etc/resolv.conf. Sandboxes reach them even if they are private. */
  dnsServers: readonly string[]
  /** Exceptions from the closed address ranges: sandboxes may reach these if their own rules allow it. */
  openedRanges?: readonly string[]
  /** Number of slots kept prepared, so that a start need not wait for one. */
  poolSize?: number
  /** Disk size of free slots until a sandbox asks for another size. */
  poolDiskMB?: number
  uidBase?: number
  /** Memory limit of all sandboxes together. Unset: no common limit. */
  totalMemoryMB?: number
  /** Maximum number of processes and threads of a sandbox. Under gVisor each user gets at most a quarter of it. */
  pidsLimit?: number
  /** Maximum numbers of open connections; by default they follow from the size of the machine's connection table. */
  flowShares?: Partial<FlowShares>
  /** gVisor's platform for new sandboxes, or what the driver runs on each once to choose one. */
  platform?: string | PlatformTrial
  /** The GPUs for sandboxes. Unset: sandboxes get none. */
  gpus?: GpuOptions
  /** Path of our program that serves memory while it arrives. Unset: a sandbox starts when all its memory is there. */
  pageServer?: string
  log?: (message: string, cause?: unknown) => void
}

export type GpuOptions = {
  machine: MachineGpus
  /** Maximum number of sandboxes that share one GPU. */
  share: number
  /** Path of our program that moves the GPU memory of a process to the host and back. It runs inside sandboxes. */
  checkpointProgram: string
  /** The driver's version whose interface gVisor takes for the one of this machine. Unset: it knows that one. */
  borrowedInterface?: string
}
