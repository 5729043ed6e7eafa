/** The parts of the driver that its functions share. */
import type { JoinedWork } from '../../../lib/keyed-lock.ts'
import type { Listeners } from '../../../lib/listeners.ts'
import type { GpuShares } from '../../host/device/gpu-shares.ts'
import type { GpuMeter } from '../../host/device/gpu-use.ts'
import type { MachineGpus } from '../../host/device/gpus.ts'
import type { NamespaceThread } from '../../host/namespace/namespace-thread.ts'
import type { Subnet } from '../../host/network/addresses.ts'
import type { Firewall } from '../../host/network/firewall.ts'
import type { Cgroups } from '../../host/process/cgroups.ts'
import type { CpuShares } from '../../host/process/cpu-shares.ts'
import type { ExitWatch } from '../../host/process/exit-watch.ts'
import type { Layout } from '../../host/record/layout.ts'
import type { Records, SandboxRecord } from '../../host/record/records.ts'
import type { OwnUsers } from '../../host/slot/own-users.ts'
import type { SlotPool } from '../../host/slot/slots.ts'
import type { PlatformTrial } from '../runtime/platforms.ts'
import type { RuntimeFlavour } from '../runtime/runtime-flavour.ts'

/** The runtime of new sandboxes. Sandboxes that run already may have another one. */
type ChosenRuntime = {
  flavour: RuntimeFlavour
  binary: string
  /** How gVisor intercepts system calls; undefined until it is chosen, and for a runtime without a choice. */
  platform?: string | undefined
}

export type DriverGpus = {
  machine: MachineGpus
  shares: GpuShares
  meter: GpuMeter
  checkpointProgram: string
  borrowedInterface?: string
  /** The folder with the GPU driver's libraries; undefined until it is made. */
  files: string | undefined
}

export type OciContext = {
  layout: Layout
  subnet: Subnet
  runtime: ChosenRuntime
  /** What the driver tries to choose gVisor's platform; undefined if somebody else has chosen it. */
  trial: PlatformTrial | undefined
  agentFolders: readonly string[]
  /** The host user that owns the files of the sandbox's root user on disk; the sandbox's other users follow. */
  uidBase: number
  /** Undefined if all sandboxes share the users that own the files. */
  users: OwnUsers | undefined
  namespaces: NamespaceThread
  dnsServers: readonly string[]
  openFilesLimit: number
  pidsLimit: number
  /** Memory limit of all sandboxes together. Null: no common limit. */
  totalMemoryMB: number | null
  cgroups: Cgroups
  /** Stops the wait of each sandbox whose memory limit is to be lowered. */
  lowering: Map<string, AbortController>
  records: Records
  firewall: Firewall
  slots: SlotPool
  /** Told before the address of a sandbox that has ended is free for another one. */
  freedAddresses: Listeners<SandboxRecord>
  cpuShares: CpuShares
  /** Undefined if sandboxes get no GPU on this machine. */
  gpus: DriverGpus | undefined
  exits: ExitWatch
  /** Serves memory that arrives while a sandbox runs. Undefined if this machine cannot do that. */
  pages: { program: string } | undefined
  /** One /sys for each number of CPUs, made on first use. */
  sysSkeletons: JoinedWork<void>
}

/** Frees the CPUs and GPUs of a run that has ended. */
export function releaseShares({ cpuShares, gpus }: OciContext, runID: string): void {
  cpuShares.release(runID)
  gpus?.shares.release(runID)
}
