/**
 * Joins the domain over its ports. It opens nothing and starts nothing: the server hands it the real ports, and
 * the tests of the domain hand it fakes, so both run the same wiring.
 */
import { envdVersion } from '../../contract/constants.ts'
import { AuditTrail } from '../../core/audit/audit-trail.ts'
import { TeamRemover } from '../../core/cluster/team-remover.ts'
import { DiskSpace } from '../../core/disk-space/disk-space.ts'
import { Pruner } from '../../core/disk-space/pruner.ts'
import { Members } from '../../core/person/members.ts'
import { createAutoResume, createFindDemand } from '../../core/sandbox/auto-resume.ts'
import { BuildSandboxes } from '../../core/sandbox/builds/build-sandboxes.ts'
import { Admission } from '../../core/sandbox/capacity/admission.ts'
import { noDiskLevels } from '../../core/sandbox/capacity/disk-levels.ts'
import { FrozenSandboxes } from '../../core/sandbox/capacity/frozen-sandboxes.ts'
import { GuardActs } from '../../core/sandbox/capacity/guard-acts.ts'
import { SandboxLauncher } from '../../core/sandbox/launch/launcher.ts'
import { SandboxEgress } from '../../core/sandbox/network/egress.ts'
import { Reconciler } from '../../core/sandbox/reconciler.ts'
import { retryingSandboxStore } from '../../core/sandbox/row/retrying-store.ts'
import type { EndReason } from '../../core/sandbox/row/sandbox.ts'
import { SandboxTurns } from '../../core/sandbox/row/sandbox-turns.ts'
import { SandboxTokens } from '../../core/sandbox/row/tokens.ts'
import { joinVerbs } from '../../core/sandbox/sandbox-verbs.ts'
import { SandboxService } from '../../core/sandbox/service.ts'
import { Quarantine } from '../../core/sandbox/snapshots/quarantine.ts'
import { SnapshotStore } from '../../core/sandbox/snapshots/snapshot-store.ts'
import { SandboxUpkeep } from '../../core/sandbox/upkeep.ts'
import { WarmPool } from '../../core/sandbox/warm-pool/warm-pool.ts'
import { AccessTokens } from '../../core/team/access-tokens.ts'
import { TeamService } from '../../core/team/service.ts'
import type { Team } from '../../core/team/team.ts'
import { TeamUsage } from '../../core/team/usage.ts'
import { BuildLog } from '../../core/template/build-log.ts'
import { BuildService } from '../../core/template/build-service.ts'
import { BuiltInTemplates } from '../../core/template/built-in-templates.ts'
import { TemplateCatalog } from '../../core/template/catalog.ts'
import { OnDemandTemplates } from '../../core/template/on-demand-templates.ts'
import { TemplateRemover } from '../../core/template/remover.ts'
import { TemplateService } from '../../core/template/service.ts'
import type { BudgetService } from '../../core/usage/budget-service.ts'
import { VolumeService } from '../../core/volume/service.ts'
import { VolumeTokens } from '../../core/volume/tokens.ts'
import { AppError } from '../../lib/app-error.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import { noTracer } from '../../lib/tracer.ts'
import type { Stores } from '../../store/stores.ts'
import { tracedAdmission, tracedSandboxes } from '../telemetry/trace-ports.ts'
import { joinAttribution } from './attribution.ts'
import type { DomainPorts, DomainSettings } from './domain-ports.ts'
import { joinGuards } from './guards.ts'
import { joinObjectStorage } from './object-storage.ts'
import { joinUsage } from './usage.ts'

export type Domain = ReturnType<typeof joinDomain>

export function joinDomain(ports: DomainPorts, settings: DomainSettings) {
  const { stores, clock } = ports
  const volumes = new VolumeService({
    clock,
    log: ports.log,
    volumes: stores.volumes,
    lost: stores.lostVolumes,
    disks: ports.volumeDisks,
    settings: settings.volumes,
    tokens: new VolumeTokens({ seed: settings.seed, clock }),
    requireDiskSpace: (teamID, bytes) => templates.requireDiskSpace(teamID, bytes),
  })
  const storedBytes = async () => (await sandboxes.machineShares.read()).disk.teams
  const counting = joinUsage(ports, storedBytes)
  const sandboxes = joinSandboxes(ports, settings, {
    volumes,
    ...counting,
    onShortDisk: () => void templates.diskSpace.free(),
  })
  const templates = joinTemplates(ports, settings, sandboxes)
  const teams = new TeamService({ teams: stores.teams, keys: stores.keys, clock })
  const accessTokens = new AccessTokens({ accessTokens: stores.accessTokens, keys: stores.keys, clock })
  const audit = new AuditTrail({ audit: stores.audit, clock, log: ports.log })
  const members = new Members({ members: stores.members, clock })
  const usage = new TeamUsage({ teamMetrics: stores.teamMetrics, clock })
  const teamRemover = new TeamRemover({
    teams: stores.teams,
    sandboxes: stores.sandboxes,
    templates: stores.templates,
    owners: stores.owners,
    clock,
    killSandbox: (team, sandboxID) => sandboxes.service.kill(team, sandboxID),
    removeTemplate: (team, templateID) => templates.remover.remove(team, templateID),
    removeVolumes: (team) => volumes.deleteAll(team),
  })
  return {
    ...sandboxes,
    ...templates,
    ...counting,
    volumes,
    teams,
    accessTokens,
    members,
    audit,
    usage,
    teamRemover,
  }
}

type SandboxSupport = { volumes: VolumeService; budgets: BudgetService; onShortDisk: () => void }

function joinSandboxes(
  ports: DomainPorts,
  settings: DomainSettings,
  { volumes, budgets, onShortDisk }: SandboxSupport,
) {
  const { templates, teams, buildCache: cache } = ports.stores
  const { driver, agent, routes, machine, freeBytes, extraCA, clock, appendLog, log } = ports
  const sandboxes = retryingSandboxStore(ports.stores.sandboxes, clock)
  const tokens = new SandboxTokens(settings.seed)
  const catalog = new TemplateCatalog(templates)
  const snapshots = new SnapshotStore({ driver, folders: ports.snapshotFolders })
  const turns = new SandboxTurns(sandboxes)
  const objectStorage = joinObjectStorage(ports, settings, snapshots, turns)
  const fetcher = objectStorage?.fetcher
  const quarantine = new Quarantine({
    driver,
    clock,
    appendLog,
    log,
    sandboxes,
    sandboxTurns: turns,
    snapshots,
    entries: ports.stores.quarantine,
    nodeID: settings.nodeID,
    keepMs: settings.quarantineMs,
  })
  const { diskLevels = noDiskLevels } = settings
  const spare = { sum: () => warm.sum(), giveUp: (count: number) => warm.giveUp(count) }
  const { tracer = noTracer } = ports
  const acts = new GuardActs(clock)
  const admission = tracedAdmission(
    new Admission({
      machine,
      freeBytes,
      clock,
      sandboxes,
      spare,
      minFreeMemoryMB: (teamID) => memoryGuard.minFreeMB(teamID),
      minFreeDiskBytes: (teamID) =>
        diskGuard.isBelowFairShare(teamID) ? diskGuard.minFreeBytes(teamID) : undefined,
      onRejected: (teamID, why) => acts.note({ guard: 'starts', act: 'refused', teamID, why }),
      gpus: () => driver.gpus,
      settings: { ...settings.admission, minFreeDiskBytes: diskLevels.startBytes },
    }),
    tracer,
  )
  const egress = new SandboxEgress({
    driver,
    gate: ports.gate,
    authority: ports.authority,
    extraCA,
    agent,
    lookup: ports.lookup,
    isClosed: ports.isClosed,
    tokens,
  })
  const launcher = new SandboxLauncher({
    driver,
    agent,
    routes,
    extraCA,
    clock,
    agentProgram: ports.agentProgram,
    rootsOf: ports.rootsOf,
    tokens,
    snapshots,
    egress,
    volumes,
    fetcher,
  })
  const warm = new WarmPool({
    driver,
    machine,
    onAcquire: ports.onAcquire,
    clock,
    log,
    launcher,
    admission,
    settings: settings.warmPool,
  })
  const buildSandboxes = new BuildSandboxes({
    driver,
    agent,
    log,
    tokens,
    launcher,
    snapshots,
    turns,
  })
  const frozen = new FrozenSandboxes({ driver, routes, clock, appendLog, log, turns })
  const emptyPool = () =>
    void warm.giveUp(1000).catch((error) => log.error({ err: error }, 'The warm pool could not be emptied.'))
  const endUnowned = (short: 'disk' | 'memory') => (sandboxID: string) => {
    if (!warm.owns(sandboxID)) return buildSandboxes.endFor(short, sandboxID)
    emptyPool()
    return true
  }
  const end = (sandboxID: string, reason: EndReason) => upkeep.endRunning(sandboxID, reason)
  const { sandboxTeams, teamDisk } = joinAttribution(ports, warm, buildSandboxes)
  const { diskGuard, memoryGuard, connectionShares, machineShares } = joinGuards(ports, settings, {
    frozen,
    acts,
    sandboxTeams,
    teamDisk,
    end,
    endUnowned,
    pause: (sandboxID) => upkeep.pauseForMemory(sandboxID),
    onShortDisk,
    onShortMemory: emptyPool,
  })
  const verbParts = {
    sandboxes,
    owners: ports.stores.owners,
    templates,
    catalog,
    driver,
    admission,
    launcher,
    egress,
    volumes,
    warm,
    snapshots,
    quarantine,
    turns,
    requireBudget: (teamID: string) => budgets.require(teamID),
    diskGuard,
    frozen,
    fetcher,
    onSnapshotTaken: () => objectStorage?.uploader.nudge(),
    clock,
    appendLog,
    log,
  }
  const verbs = joinVerbs(verbParts)
  const service = tracedSandboxes(new SandboxService(verbParts, verbs), tracer)
  const upkeep = new SandboxUpkeep(verbParts, verbs)
  const reconciler = new Reconciler({
    upkeep,
    sandboxes,
    driver,
    templates,
    cache,
    launcher,
    snapshots,
    quarantine,
    warm,
    turns,
    frozen,
    copies: objectStorage && {
      listElsewhere: (sandboxIDs) =>
        retryPassing(clock, () => ports.stores.remoteBytes.listElsewhere(sandboxIDs)),
    },
    clock,
    log,
  })
  const findResumable = createAutoResume({ service, sandboxes, teams, routes, turns, tokens })
  const findDemand = createFindDemand({ owners: ports.stores.owners, tokens })
  return {
    tokens,
    catalog,
    warm,
    snapshots,
    quarantine,
    launcher,
    buildSandboxes,
    service,
    upkeep,
    reconciler,
    findResumable,
    findDemand,
    admission,
    objectStorage,
    diskGuard,
    memoryGuard,
    connectionShares,
    acts,
    machineShares,
  }
}

/** Joins the parts that upload to the object store and fetch from it. */
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
    objectStorage,
    memoryGuard,
    diskGuard,
    acts,
  }: ReturnType<typeof joinSandboxes>,
) {
  const { templates, sandboxes, buildCache: cache } = ports.stores
  const { clock, log, logs, buildFiles: files, freeBytes } = ports
  const pruner = new Pruner({
    images: ports.images,
    driver: ports.driver,
    clock,
    templates,
    sandboxes,
    cache,
    files,
    snapshots,
    quarantine,
  })
  const diskSpace = new DiskSpace({ pruner, freeBytes, minFreeBytes: settings.minFreeBytes, log })
  /** A team below its fair share of the disk goes on where others have filled it. */
  const requireDiskSpace = async (teamID: string, bytes = 0) => {
    if (!(await diskSpace.free()) && diskGuard.isBelowFairShare(teamID, bytes))
      return diskGuard.require(teamID, bytes)
    await diskSpace.require().catch((error) => {
      const why = 'Too little disk space was free (WARREN_MIN_FREE_DISK_MB), and nothing was left to prune.'
      acts.note({ guard: 'disk', act: 'refused', teamID, why })
      throw error
    })
  }
  const builder = ports.createBuilder({ buildSandboxes, snapshots, freeDiskSpace: () => diskSpace.free() })
  const buildLog = new BuildLog({ logs, maxBytes: settings.maxBuildLogBytes, clock, log })
  const builds = new BuildService({
    templates,
    catalog,
    builder,
    buildLog,
    clock,
    envdVersion,
    log,
    requireSpace: ({ teamID }) => {
      memoryGuard.require(teamID)
      return requireDiskSpace(teamID)
    },
    onReady: async (build) => {
      objectStorage?.uploader.nudge()
      await warm.replace(build)
    },
  })
  const remover = new TemplateRemover({
    catalog,
    templates,
    clock,
    removeSnapshots: (names) => reconciler.removeSnapshots(names),
    cancelBuild: (buildID) => builds.cancel(buildID, 'The template was deleted.'),
    dropWarm: (templateID) => warm.drop(templateID),
  })
  const service = new TemplateService({ templates, catalog, clock })
  const onDemand = new OnDemandTemplates({ templates, catalog, builds, images: ports.images, clock })
  const builtIns = new BuiltInTemplates({
    recipes: ports.recipes,
    catalog,
    templates: service,
    builds,
    files,
    owner: () => ownerOfBuiltIns(ports.stores),
    clock,
  })
  catalog.onMissing((alias) => builtIns.whenMissing(alias))
  return { pruner, diskSpace, requireDiskSpace, builds, builtIns, remover, onDemand, templates: service }
}

/** Returns the first team, which the first start of Warren creates. */
async function ownerOfBuiltIns({ teams }: Stores): Promise<Team> {
  const [first] = await teams.listTeams()
  if (!first) throw new AppError('unavailable', 'No team can own the template: create a team first')
  return first
}
