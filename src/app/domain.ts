/**
 * Joins the domain over its ports. It opens nothing and starts nothing: the server hands it the real ports, and
 * the tests of the domain hand it fakes, so both run the same wiring.
 */
import { envdVersion } from '../contract/constants.ts'
import type { AgentPort } from '../core/agent.ts'
import { Archiver } from '../core/archive/archiver.ts'
import { BuildsAtHand } from '../core/archive/builds-at-hand.ts'
import { BytesFetcher } from '../core/archive/bytes-fetcher.ts'
import { LogCarrier } from '../core/archive/log-carrier.ts'
import { SnapshotArchive } from '../core/archive/snapshot-archive.ts'
import { ArchiveSweeper } from '../core/archive/sweeper.ts'
import type { Driver } from '../core/driver.ts'
import type { Images, LayerArchive } from '../core/images.ts'
import type { LogEntry, LogStore } from '../core/logs.ts'
import type { ObjectStore, PackStore } from '../core/object-store.ts'
import { Admission, type AdmissionSettings, type MachineCapacity } from '../core/sandbox/admission.ts'
import { createAutoResume, createFindDemand } from '../core/sandbox/auto-resume.ts'
import { BuildSandboxes } from '../core/sandbox/build-sandboxes.ts'
import { DiskGuard, type DiskReserve } from '../core/sandbox/disk-guard.ts'
import { type DiskLevels, noDiskLevels } from '../core/sandbox/disk-levels.ts'
import { SandboxEgress, type SandboxEgressParts } from '../core/sandbox/egress.ts'
import { HeldSandboxes } from '../core/sandbox/held-sandboxes.ts'
import { type LauncherParts, SandboxLauncher } from '../core/sandbox/launcher.ts'
import { MachineMemoryGuard } from '../core/sandbox/machine-memory-guard.ts'
import { memoryLevels } from '../core/sandbox/memory-levels.ts'
import { SandboxMover } from '../core/sandbox/mover.ts'
import { Quarantine } from '../core/sandbox/quarantine.ts'
import { Reconciler } from '../core/sandbox/reconciler.ts'
import { retryingSandboxStore } from '../core/sandbox/retrying-store.ts'
import type { RouteTable } from '../core/sandbox/routes.ts'
import type { EndReason } from '../core/sandbox/sandbox.ts'
import { SandboxTurns } from '../core/sandbox/sandbox-turns.ts'
import { SandboxService } from '../core/sandbox/service.ts'
import { type SnapshotFolders, SnapshotStore } from '../core/sandbox/snapshot-store.ts'
import { SandboxTokens } from '../core/sandbox/tokens.ts'
import { WarmPool, type WarmPoolParts, type WarmPoolSettings } from '../core/sandbox/warm-pool.ts'
import type { Stores } from '../core/stores.ts'
import { AccessTokens } from '../core/team/access-tokens.ts'
import { TeamRemover } from '../core/team/remover.ts'
import { TeamService } from '../core/team/service.ts'
import type { Team } from '../core/team/team.ts'
import { TeamUsage } from '../core/team/usage.ts'
import { BuildLog } from '../core/template/build-log.ts'
import { BuildService } from '../core/template/build-service.ts'
import type { Builder, BuildFiles } from '../core/template/builder.ts'
import { type BuiltInRecipe, BuiltInTemplates } from '../core/template/built-in-templates.ts'
import { TemplateCatalog } from '../core/template/catalog.ts'
import { DiskSpace } from '../core/template/disk-space.ts'
import { Pruner } from '../core/template/pruner.ts'
import { TemplateRemover } from '../core/template/remover.ts'
import { TemplateService } from '../core/template/service.ts'
import { VolumeService, type VolumeSettings } from '../core/volume/service.ts'
import { VolumeTokens } from '../core/volume/tokens.ts'
import type { VolumeDisks } from '../core/volume/volume-files.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { noTracer, type Tracer } from '../lib/tracer.ts'
import { tracedAdmission, tracedSandboxes } from './telemetry/trace-ports.ts'

export type DomainPorts = {
  stores: Stores
  driver: Driver
  agent: AgentPort
  snapshotFolders: SnapshotFolders
  volumeDisks: VolumeDisks
  images: Pick<Images, 'prune' | 'missing'>
  buildFiles: BuildFiles
  /** Makes what carries builds out, over the parts of the domain that it works with. */
  createBuilder: (tools: BuilderTools) => Builder
  /** Templates that Warren makes by itself. */
  recipes: readonly BuiltInRecipe[]
  logs: LogStore
  /** Where the edge finds the sandboxes that run. */
  routes: RouteTable
  /** Adds to the log of a sandbox, without anybody waiting for it. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  clock: Clock
  log: Log
  machine: MachineCapacity
  /** Undefined: there is no object store, and everything stays on this machine's disk. */
  archive?: { objects: ObjectStore; packs: PackStore; layers: LayerArchive } | undefined
  /** Bytes that are free on the disk of the data folder. */
  freeBytes: () => Promise<number>
  /** Undefined: none is kept. */
  diskReserve?: DiskReserve
  tracer?: Tracer
} & Pick<SandboxEgressParts, 'gate' | 'authority' | 'extraCA' | 'lookup' | 'isClosed'> &
  Pick<LauncherParts, 'rootsOf'> &
  Pick<WarmPoolParts, 'onTake'>

export type DomainSettings = {
  /** The seed of every sandbox's tokens. */
  seed: string
  /** This Warren among those that share its database. */
  nodeID: string
  /** How long a snapshot that nothing owns stays in quarantine. */
  quarantineMs: number
  warmPool: WarmPoolSettings
  admission: AdmissionSettings
  /** Bytes of the disk that stay free. */
  minFreeBytes: number
  /** What must be left of the disk for what; unset: nobody watches it. */
  diskLevels?: DiskLevels
  /** Bytes that are kept of the log of each build. */
  maxBuildLogBytes: number
  volumes: VolumeSettings
}

export type BuilderTools = {
  buildSandboxes: BuildSandboxes
  snapshots: SnapshotStore
  freeDiskSpace: () => Promise<boolean>
}

export type Domain = ReturnType<typeof joinDomain>

export function joinDomain(ports: DomainPorts, settings: DomainSettings) {
  const { stores, clock } = ports
  const volumes = new VolumeService({
    ...{ ...ports, volumes: stores.volumes, disks: ports.volumeDisks, settings: settings.volumes },
    tokens: new VolumeTokens({ seed: settings.seed, clock }),
    requireDiskSpace: () => templates.diskSpace.require(),
  })
  const sandboxes = joinSandboxes(ports, settings, volumes, () => void templates.diskSpace.free())
  const templates = joinTemplates(ports, settings, sandboxes)
  const teams = new TeamService({ teams: stores.teams, keys: stores.keys, clock })
  const accessTokens = new AccessTokens({ ...stores, clock })
  const usage = new TeamUsage({ ...stores, clock })
  const teamRemover = new TeamRemover({
    ...{ ...stores, clock },
    killSandbox: (team, sandboxID) => sandboxes.service.kill(team, sandboxID),
    removeTemplate: (team, templateID) => templates.remover.remove(team, templateID),
    removeVolumes: (team) => volumes.deleteAll(team),
  })
  return { ...sandboxes, ...templates, volumes, teams, accessTokens, usage, teamRemover }
}

function joinSandboxes(
  ports: DomainPorts,
  settings: DomainSettings,
  volumes: VolumeService,
  onShortDisk: () => void,
) {
  const { templates, teams, buildCache: cache } = ports.stores
  const { driver, routes, clock } = ports
  const sandboxes = retryingSandboxStore(ports.stores.sandboxes, clock)
  const tokens = new SandboxTokens(settings.seed)
  const catalog = new TemplateCatalog(templates)
  const snapshots = new SnapshotStore({ driver, places: ports.snapshotFolders })
  const turns = new SandboxTurns(sandboxes)
  const archive = joinArchive(ports, settings, snapshots)
  const fetcher = archive?.fetcher
  const quarantine = new Quarantine({
    ...{ ...ports, sandboxes, sandboxTurns: turns, snapshots, entries: ports.stores.quarantine },
    ...{ nodeID: settings.nodeID, keepMs: settings.quarantineMs },
  })
  const { diskLevels = noDiskLevels } = settings
  const spare = { sum: () => warm.sum(), giveUp: (count: number) => warm.giveUp(count) }
  const { tracer = noTracer } = ports
  const admission = tracedAdmission(
    new Admission({
      ...{ ...ports, sandboxes, spare },
      settings: { ...settings.admission, minFreeDiskBytes: diskLevels.startBytes },
    }),
    tracer,
  )
  const egress = new SandboxEgress({ ...ports, tokens })
  const launcher = new SandboxLauncher({ ...ports, tokens, snapshots, egress, volumes, fetcher })
  const warm = new WarmPool({ ...ports, launcher, admission, settings: settings.warmPool })
  const buildSandboxes = new BuildSandboxes({ ...ports, tokens, launcher, snapshots, turns })
  const held = new HeldSandboxes({ ...ports, turns })
  const emptyPool = () =>
    void warm
      .giveUp(1000)
      .catch((error) => ports.log.error({ err: error }, 'The warm pool could not be emptied.'))
  const endUnowned = (short: 'disk' | 'memory') => (sandboxID: string) => {
    if (!warm.holds(sandboxID)) return buildSandboxes.endFor(short, sandboxID)
    emptyPool()
    return true
  }
  const end = (sandboxID: string, reason: EndReason) => service.endRunning(sandboxID, reason)
  const diskGuard = new DiskGuard({
    ...{ ...ports, held, levels: diskLevels, onShort: onShortDisk, end, endUnowned: endUnowned('disk') },
    promisedBytes: () => ports.volumeDisks.promisedBytes(),
    reserve: ports.diskReserve ?? noReserve,
  })
  const memoryGuard = new MachineMemoryGuard({
    ...{ ...ports, held, end, endUnowned: endUnowned('memory'), onShort: emptyPool },
    levels: memoryLevels(settings.admission.minFreeMemoryMB),
    availableBytes: async () => (await ports.machine.availableMemoryMB()) * 1024 * 1024,
    pause: (sandboxID) => service.pauseForMemory(sandboxID),
  })
  const shared = {
    ...{ ...ports, sandboxes, templates, catalog, launcher, egress, warm, snapshots, quarantine, turns },
    ...{ admission, volumes, diskGuard, held, owners: ports.stores.owners },
    ...{ fetcher, onKept: () => archive?.archiver.nudge() },
  }
  const service = tracedSandboxes(new SandboxService(shared), tracer)
  const reconciler = new Reconciler({
    ...{ ...shared, service, cache },
    archive: archive && ports.stores.archive,
  })
  const findResumable = createAutoResume({ service, sandboxes, teams, routes, tokens })
  const findDemand = createFindDemand({ owners: ports.stores.owners, tokens })
  return {
    ...{ tokens, catalog, warm, snapshots, quarantine, launcher, buildSandboxes, service, reconciler },
    ...{ findResumable, findDemand, admission, archive, diskGuard, memoryGuard },
  }
}

const noReserve: DiskReserve = {
  giveUp: async () => {},
  restore: async () => false,
  isThere: async () => true,
}

/** What brings bytes to the object store and back. */
function joinArchive(ports: DomainPorts, { nodeID }: DomainSettings, snapshots: SnapshotStore) {
  if (!ports.archive) return undefined
  const { stores, driver, clock, log } = ports
  const { objects, packs, layers } = ports.archive
  const rows = stores.archive
  const parts = {
    rows,
    layers,
    packs,
    clock,
    log,
    logs: new LogCarrier(ports.logs, log),
    snapshots: new SnapshotArchive({ driver, snapshots, packs }),
  }
  const fetcher = new BytesFetcher(parts)
  return {
    fetcher,
    archiver: new Archiver(parts),
    buildsAtHand: new BuildsAtHand({ rows, images: ports.images, snapshots, clock }),
    mover: new SandboxMover({ rows, fetcher, nodeID, log }),
    sweeper: new ArchiveSweeper({ objects, rows, leases: stores.leases, clock, log }),
  }
}

function joinTemplates(
  ports: DomainPorts,
  settings: DomainSettings,
  {
    catalog,
    snapshots,
    quarantine,
    buildSandboxes,
    reconciler,
    warm,
    archive,
    memoryGuard,
  }: ReturnType<typeof joinSandboxes>,
) {
  const { templates, sandboxes, buildCache: cache } = ports.stores
  const { clock, log, logs, buildFiles: files, freeBytes } = ports
  const pruner = new Pruner({ ...ports, templates, sandboxes, cache, files, snapshots, quarantine })
  const diskSpace = new DiskSpace({ pruner, freeBytes, minFreeBytes: settings.minFreeBytes, log })
  const builder = ports.createBuilder({ buildSandboxes, snapshots, freeDiskSpace: () => diskSpace.free() })
  const buildLog = new BuildLog({ logs, maxBytes: settings.maxBuildLogBytes, clock, log })
  const builds = new BuildService({
    ...{ templates, catalog, builder, buildLog, clock, envdVersion, log },
    requireSpace: () => {
      memoryGuard.require()
      return diskSpace.require()
    },
    onReady: async (build) => {
      archive?.archiver.nudge()
      await warm.replace(build)
    },
  })
  const remover = new TemplateRemover({
    ...{ catalog, templates, clock },
    removeSnapshots: (names) => reconciler.removeSnapshots(names),
    cancelBuild: (buildID) => builds.cancel(buildID, 'The template was deleted.'),
    dropWarm: (templateID) => warm.drop(templateID),
  })
  const service = new TemplateService({ templates, catalog, clock })
  const builtIns = new BuiltInTemplates({
    ...{ recipes: ports.recipes, catalog, templates: service, builds, files },
    owner: () => ownerOfBuiltIns(ports.stores),
  })
  catalog.onMissing((alias) => builtIns.whenMissing(alias))
  return { pruner, diskSpace, builds, builtIns, remover, templates: service }
}

/** The first team, which is there from the first start on. */
async function ownerOfBuiltIns({ teams }: Stores): Promise<Team> {
  const [first] = await teams.listTeams()
  if (!first)
    throw new AppError('unavailable', 'There is no team that could own the template: make one first')
  return first
}
