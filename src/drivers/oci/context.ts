/** The parts of the driver that its verbs work with. */
import type { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Subnet } from './addresses.ts'
import type { Cgroups } from './cgroups.ts'
import type { AgentCommand } from './container-spec.ts'
import type { CpuShares } from './cpu-shares.ts'
import type { Firewall } from './firewall.ts'
import type { Layout } from './layout.ts'
import type { Records } from './records.ts'
import type { Runtime } from './runtime.ts'
import type { SlotPool } from './slots.ts'

export type OciContext = {
  layout: Layout
  subnet: Subnet
  runtime: Runtime
  agent: AgentCommand
  uidBase: number
  dnsServers: readonly string[]
  openFilesLimit: number
  pidsLimit: number
  cgroups: Cgroups
  records: Records
  firewall: Firewall
  slots: SlotPool
  cpuShares: CpuShares
  /** One /sys per number of CPUs, made on first use. */
  sysSkeletons: JoinedWork<string>
}
