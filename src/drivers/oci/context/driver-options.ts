import type { MachineGpus } from '../device/gpus.ts'
import type { AgentProgram } from '../runtime/agent-program.ts'
import type { Isolation } from '../runtime/runtime-flavour.ts'

export type OciDriverOptions = {
  isolation: Isolation
  /** The program of the runtime that belongs to the isolation: runsc or runc. */
  runtimeBinary: string
  dataFolder: string
  /** Six of a-z and 0-9 that tell Warrens on one machine apart; `instanceOf(dataFolder)` gives them. */
  instance: string
  subnet: string
  agent: AgentProgram
  /** IPv4 addresses, written to /etc/resolv.conf and let through although they may be private. */
  dnsServers: readonly string[]
  /** Closed ranges that sandboxes may reach all the same, as far as their own rules allow it. */
  openedRanges?: readonly string[]
  poolSize?: number
  /** The disk size that free slots are made with until a sandbox asks for another. */
  poolDiskMB?: number
  uidBase?: number
  /** All sandboxes together may use so much memory. Unset: the kernel sets them no common limit. */
  totalMemoryMB?: number
  /** Processes and threads a sandbox may have; under gVisor at most a quarter of it per user. */
  pidsLimit?: number
  /** Connections that a sandbox may have open at once; by default a share of what the machine can remember. */
  mostFlows?: number
  /** gVisor's platform of new sandboxes; measured once where it is not given. */
  platform?: string
  /** The GPUs that sandboxes may have; without it they get none. */
  gpus?: GpuOptions
  log?: (message: string, cause?: unknown) => void
}

export type GpuOptions = {
  machine: MachineGpus
  /** So many sandboxes may have the same GPU at once. */
  share: number
  /** Asks the driver to move the GPU memory of a process to the host and back; it runs inside of sandboxes. */
  checkpointProgram: string
}
