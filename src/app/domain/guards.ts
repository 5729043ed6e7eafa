/** Joins the guards of the machine's memory and disk, and what tells the operator about teams and the guards' acts. */
import { canShareConnections } from '../../core/ports/driver.ts'
import { ConnectionShares } from '../../core/sandbox/capacity/connection-shares.ts'
import { DiskGuard, type DiskReserve } from '../../core/sandbox/capacity/disk-guard.ts'
import { noDiskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import type { FrozenSandboxes } from '../../core/sandbox/capacity/frozen-sandboxes.ts'
import type { GuardActs } from '../../core/sandbox/capacity/guard-acts.ts'
import { MachineMemoryGuard } from '../../core/sandbox/capacity/machine-memory-guard.ts'
import { MachineShares } from '../../core/sandbox/capacity/machine-shares.ts'
import { memoryLevels } from '../../core/sandbox/capacity/memory-levels.ts'
import type { SandboxTeams } from '../../core/sandbox/capacity/sandbox-teams.ts'
import type { TeamDisk } from '../../core/sandbox/capacity/team-disk.ts'
import type { EndReason } from '../../core/sandbox/row/sandbox.ts'
import type { DomainPorts, DomainSettings } from './domain-ports.ts'

type GuardJoin = {
  frozen: FrozenSandboxes
  acts: GuardActs
  sandboxTeams: SandboxTeams
  teamDisk: TeamDisk
  /** Ends a sandbox without a row. */
  endUnowned: (short: 'disk' | 'memory') => (sandboxID: string) => boolean
  end: (sandboxID: string, reason: EndReason) => Promise<void>
  pause: (sandboxID: string) => Promise<boolean> | undefined
  onShortDisk: () => void
  onShortMemory: () => void
}

export function joinGuards(ports: DomainPorts, settings: DomainSettings, parts: GuardJoin) {
  const { driver, machine, freeBytes, clock, log } = ports
  const { frozen, acts, sandboxTeams, teamDisk, end, endUnowned } = parts
  const levels = {
    memory: memoryLevels(settings.admission.minFreeMemoryMB),
    disk: settings.diskLevels ?? noDiskLevels,
  }
  const availableBytes = async () => (await machine.availableMemoryMB()) * 1024 * 1024
  const promisedBytes = () => ports.volumeDisks.promisedBytes()
  const diskGuard = new DiskGuard({
    driver,
    sandboxTeams,
    teamBytes: async () => teamDisk.bytes(),
    frozen,
    acts,
    freeBytes,
    clock,
    log,
    levels: levels.disk,
    onShort: parts.onShortDisk,
    promisedBytes,
    reserve: ports.diskReserve ?? noReserve,
    end,
    endUnowned: endUnowned('disk'),
  })
  const memoryGuard = new MachineMemoryGuard({
    driver,
    sandboxTeams,
    frozen,
    acts,
    clock,
    log,
    levels: levels.memory,
    availableBytes,
    pause: parts.pause,
    onShort: parts.onShortMemory,
    end,
    endUnowned: endUnowned('memory'),
  })
  const machineShares = new MachineShares({
    driver,
    sandboxTeams,
    teamBytes: () => teamDisk.newestBytes(),
    frozen,
    acts,
    availableBytes,
    freeBytes,
    promisedBytes,
    levels,
  })
  const connectionShares = new ConnectionShares({
    driver: canShareConnections(driver) ? driver : undefined,
    sandboxTeams,
    clock,
    log,
  })
  return { diskGuard, memoryGuard, connectionShares, machineShares }
}

const noReserve: DiskReserve = {
  giveUp: async () => {},
  restore: async () => false,
  isThere: async () => true,
}
