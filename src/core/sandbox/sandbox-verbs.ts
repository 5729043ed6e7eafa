/** Joins the verbs, which share their parts, the timer of the expiry and the count of creates. */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Driver } from '../ports/driver.ts'
import type { LogEntry } from '../ports/logs.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import type { TemplateStore } from '../template/template-store.ts'
import type { VolumeService } from '../volume/service.ts'
import type { Admission } from './capacity/admission.ts'
import type { DiskGuard } from './capacity/disk-guard.ts'
import type { FrozenSandboxes } from './capacity/frozen-sandboxes.ts'
import { Expiry } from './expiry.ts'
import type { SandboxLauncher } from './launch/launcher.ts'
import type { SandboxEgress } from './network/egress.ts'
import type { Sandbox } from './row/sandbox.ts'
import type { SandboxFinder, SandboxStore } from './row/sandbox-store.ts'
import type { SandboxTurns } from './row/sandbox-turns.ts'
import type { BytesSource } from './snapshots/bytes-source.ts'
import type { Quarantine } from './snapshots/quarantine.ts'
import type { SnapshotStore } from './snapshots/snapshot-store.ts'
import { MemoryArrivals } from './verbs/arrivals.ts'
import { SandboxCopier } from './verbs/copier.ts'
import { CreateCounter } from './verbs/create-counter.ts'
import { SandboxCreator } from './verbs/creator.ts'
import { SandboxEnder } from './verbs/ender.ts'
import { NetworkUpdater } from './verbs/network-updater.ts'
import { Pauser } from './verbs/pauser.ts'
import { Resumer } from './verbs/resumer.ts'
import type { WarmPool } from './warm-pool/warm-pool.ts'

export type SandboxVerbParts = {
  admission: Admission
  sandboxes: SandboxStore
  owners: SandboxFinder
  templates: TemplateStore
  catalog: TemplateCatalog
  driver: Driver
  launcher: SandboxLauncher
  egress: SandboxEgress
  volumes: Pick<VolumeService, 'resolve'>
  warm: WarmPool
  snapshots: SnapshotStore
  quarantine: Quarantine
  turns: SandboxTurns
  diskGuard: Pick<DiskGuard, 'require' | 'requireForSnapshot'>
  requireBudget: (teamID: string) => void
  frozen: Pick<FrozenSandboxes, 'whyFrozen'>
  /** Undefined where there is no object store. */
  fetcher: BytesSource | undefined
  /** Called when the snapshot of a paused sandbox or of a template is on the disk and its row is written. */
  onSnapshotTaken: () => void
  clock: Clock
  /** Adds an entry to the log of a sandbox; nobody waits for the write. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

export type SandboxVerbs = {
  createCounter: CreateCounter
  creator: SandboxCreator
  pauser: Pauser
  resumer: Resumer
  copier: SandboxCopier
  networks: NetworkUpdater
  arrivals: MemoryArrivals
  ender: SandboxEnder
  expiry: Expiry
}

export function joinVerbs(parts: SandboxVerbParts): SandboxVerbs {
  const onRunning = ({ endAt }: Sandbox) => expiry.arm(endAt)
  const createCounter = new CreateCounter(parts)
  const arrivals = new MemoryArrivals(parts)
  const shared = { ...parts, onRunning, createCounter, arrivals }
  const ender = new SandboxEnder(parts)
  const creator = new SandboxCreator({ ...shared, ender })
  const pauser = new Pauser(shared)
  const resumer = new Resumer(shared)
  const networks = new NetworkUpdater(shared)
  const copier = new SandboxCopier({
    ...shared,
    start: (team, row, build, snapshot) => creator.start(team, row, build, { snapshot }),
  })
  const expiry = new Expiry({ ...parts, ender, pauser })
  return { createCounter, creator, pauser, resumer, copier, networks, arrivals, ender, expiry }
}
