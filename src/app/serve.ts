/** Joins all rooms into the one process, top to bottom, and takes it apart again in reverse. */
import { basename, join } from 'node:path'
import { createAgentClient } from '../agent-client/agent-client.ts'
import { createApi } from '../api/app.ts'
import { createAutoResume } from '../core/sandbox/auto-resume.ts'
import { SandboxEgress } from '../core/sandbox/egress.ts'
import { SandboxLauncher } from '../core/sandbox/launcher.ts'
import { LogCollector } from '../core/sandbox/log-collector.ts'
import { MetricsSampler, sampleEveryMs } from '../core/sandbox/metrics.ts'
import { OngoingWork } from '../core/sandbox/ongoing-work.ts'
import { Reconciler } from '../core/sandbox/reconciler.ts'
import { RouteTable } from '../core/sandbox/routes.ts'
import { SandboxService } from '../core/sandbox/service.ts'
import { SnapshotStore } from '../core/sandbox/snapshot-store.ts'
import { SandboxTokens } from '../core/sandbox/tokens.ts'
import { WarmPool } from '../core/sandbox/warm-pool.ts'
import { SecretVault } from '../core/secret/vault.ts'
import { TeamService } from '../core/team/service.ts'
import { TemplateCatalog } from '../core/template/catalog.ts'
import { TemplateRemoval } from '../core/template/removal.ts'
import { TemplateService } from '../core/template/service.ts'
import { createEdge } from '../edge/edge.ts'
import { systemClock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { LogFiles } from '../logs/log-files.ts'
import { openStores } from '../store/open-stores.ts'
import { registerBaseTemplate } from './base-template.ts'
import type { Config } from './config.ts'
import {
  type Credentials,
  type DataPaths,
  loadSecretKey,
  loadSecrets,
  removeServerFile,
  type ServerFile,
  saveServerFile,
} from './data-folder.ts'
import { createIsClosed, createLookup, openGate } from './egress-gate.ts'
import { ensureFirstTeam } from './first-team.ts'
import { createListener } from './http-server.ts'
import type { ChosenIsolation } from './isolation.ts'
import { openSecrets } from './open-secrets.ts'
import { repeatEvery } from './repeat.ts'
import { Closers } from './shutdown.ts'
import { snapshotFolders } from './snapshot-folders.ts'
import { createBuilding, openImages, warnOfMissingLayers } from './template-building.ts'
import { certificateProblem, readTlsFiles, TlsWatch } from './tls-files.ts'
import { version } from './version.ts'

const reconcileEveryMs = 60_000
const lookAtDiskEveryMs = 60_000
const forgetEveryMs = 3_600_000
/** Ended rows and idempotency keys are kept this long. */
const keepEndedMs = 7 * 24 * 3_600_000
/** Steps of builds, and the files they took, that nobody used again. */
const keepCacheMs = 30 * 24 * 3_600_000
const closeGraceMs = 2000
const lookAtCertificateEveryMs = 2000
const mebibyte = 1024 * 1024

export type ServeParts = {
  config: Config
  paths: DataPaths
  isolation: ChosenIsolation
  /** The prepared root of the base template. */
  baseRootFolder: string
  log: Log
}

export type RunningServer = { server: ServerFile; credentials: Credentials; close(): Promise<void> }

export async function serve({
  config,
  paths,
  isolation,
  baseRootFolder,
  log,
}: ServeParts): Promise<RunningServer> {
  const closers = new Closers(log)
  try {
    const clock = systemClock
    const { driver } = isolation
    closers.add('the driver', () => driver.close())
    await driver.open()
    const vault = new SecretVault(await loadSecretKey(paths))
    const url = config.databaseUrl ?? undefined
    const stores = await openStores({ url, dataFolder: paths.root, vault })
    closers.add('the store', () => stores.close())
    const secrets = await loadSecrets(paths)

    const routes = new RouteTable()
    const tokens = new SandboxTokens(secrets.seed)
    const teams = new TeamService({ teams: stores.teams, keys: stores.keys, clock })
    const teamSecrets = await openSecrets({ stores, vault, paths, clock, log })
    const catalog = new TemplateCatalog(stores.templates)
    const agent = createAgentClient()
    const logs = new LogFiles({
      folder: join(paths.root, 'logs'),
      maxBytesPerSandbox: config.logsPerSandboxMB * mebibyte,
      maxBytesTotal: config.logsTotalMB * mebibyte,
    })
    const collector = new LogCollector({ agent, logs, routes, log })
    closers.add('collecting logs', () => collector.close())
    const warm = new WarmPool({ driver, size: config.warmSandboxes, clock, log })
    closers.add('the sandboxes started ahead', () => warm.close())
    const snapshots = new SnapshotStore({ driver, places: snapshotFolders(paths.snapshots) })
    const images = await openImages(config, paths)
    closers.add('the images', () => images.close())
    const isClosed = createIsClosed(config.allowPrivateEgress, config.subnet, clock)
    const opened = await openGate({ config, paths, driver, secrets: teamSecrets, isClosed, clock, log })
    if (opened) closers.add('the egress gate', () => opened.gate.close())
    const egress = new SandboxEgress({
      driver,
      gate: opened?.gate,
      authority: opened?.authority,
      agent,
      tokens,
      lookup: createLookup(config.dnsServers, clock),
      isClosed,
    })
    const launcher = new SandboxLauncher({
      driver,
      egress,
      snapshots,
      agent,
      warm,
      routes,
      tokens,
      rootsOf: ({ layers, rootFolder }) => {
        const folders = layers
          ? images.layerFolders(layers.toReversed())
          : [join(paths.root, rootFolder ?? '')]
        return folders as [string, ...string[]]
      },
    })
    const { sandboxes, templates } = stores
    const ongoing = new OngoingWork()
    const service = new SandboxService({
      ...{ sandboxes, templates, catalog, driver, launcher, egress, warm, snapshots, ongoing, clock, log },
      appendLog: (sandboxID, entry) => collector.tell(sandboxID, entry),
    })
    closers.add('the sandbox service', () => service.close())
    const reconciler = new Reconciler({
      ...{
        service,
        sandboxes,
        templates,
        cache: stores.buildCache,
        driver,
        launcher,
        snapshots,
        routes,
        warm,
        log,
      },
    })

    const credentials = await ensureFirstTeam(teams, paths)
    const sizes = {
      cpuCount: config.defaultCPU,
      memoryMB: config.defaultMemoryMB,
      diskMB: config.defaultDiskMB,
    }
    const layers = [await images.adopt(basename(baseRootFolder), baseRootFolder)]
    const base = await registerBaseTemplate(stores.templates, { layers, ...sizes }, clock)
    const { building, files, pruning, room } = await createBuilding({
      ...{
        paths,
        stores,
        catalog,
        images,
        driver,
        agent,
        tokens,
        launcher,
        snapshots,
        ongoing,
        logs,
        clock,
        log,
      },
      minFreeBytes: config.minFreeDiskMB * mebibyte,
      // The half that is always kept.
      maxLogBytes: (config.logsPerSandboxMB * mebibyte) / 2,
      baseBuild: async () => (await templates.findBuild(base.buildID))!,
    })
    closers.add('builds', () => building.close())
    await warnOfMissingLayers(templates, images, log)
    await building.settle(true)
    await reconciler.run()
    warm.fill(launcher.specOf(base))
    closers.add(
      'reconciling',
      repeatEvery(reconcileEveryMs, 'reconcile', log, () => reconciler.run()),
    )
    const forgetBuilds = async () => {
      await building.settle(false)
      await pruning.run({ before: clock.now() - keepCacheMs, dryRun: false })
    }
    closers.add(
      'looking after the disk',
      repeatEvery(lookAtDiskEveryMs, 'look after the disk', log, () => room.make()),
    )
    closers.add(
      'forgetting',
      repeatEvery(forgetEveryMs, 'forget old rows', log, async () => {
        await sandboxes.prune(clock.now() - keepEndedMs)
        await stores.metrics.prune(clock.now() - keepEndedMs)
        await logs.prune(clock.now() - keepEndedMs)
        await forgetBuilds()
      }),
    )

    const { metrics } = stores
    const sampler = new MetricsSampler({ driver, sandboxes, metrics, clock, log })
    closers.add(
      'sampling',
      repeatEvery(sampleEveryMs, 'sample metrics', log, () => sampler.sample()),
    )

    const edge = createEdge({
      routes,
      domain: config.domain,
      connectionLimit: config.connectionsPerSandbox,
      findResumable: createAutoResume({ service, sandboxes, teams: stores.teams, routes, tokens }),
      log,
    })
    const tls = config.tlsCert && config.tlsKey ? { cert: config.tlsCert, key: config.tlsKey } : undefined
    const pair = tls && readTlsFiles(tls)
    const listener = createListener(edge.serverOptions, pair)
    if (tls && pair) {
      const problem = certificateProblem(pair.cert, config.domain ?? '', clock.now())
      if (problem) log.warn({ file: tls.cert }, problem)
      const watch = new TlsWatch({ files: tls, use: listener.useCertificate, log })
      closers.add(
        'watching the certificate',
        repeatEvery(lookAtCertificateEveryMs, 'look at the certificate', log, () => watch.check()),
      )
    }
    const api = await createApi({
      sandboxes: service,
      metrics: stores.metrics,
      logs,
      catalog,
      removal: new TemplateRemoval({
        ...{ catalog, templates },
        sweep: () => reconciler.sweepSnapshots(),
        callOff: (buildID) => building.cancel(buildID, 'The template was deleted.'),
      }),
      templates: new TemplateService({ templates, catalog, clock }),
      building,
      pruning,
      buildFiles: files,
      uploads: { secret: secrets.seed, maxBytes: config.maxUploadMB * mebibyte },
      sizes: {
        cpu: { usual: config.defaultCPU, most: config.maxCPU },
        memoryMB: { usual: config.defaultMemoryMB, most: config.maxMemoryMB },
        diskMB: { usual: config.defaultDiskMB, most: config.maxDiskMB },
      },
      secrets: teamSecrets,
      clock,
      teams,
      tokens,
      adminToken: secrets.adminToken,
      domain: config.domain ?? undefined,
      version,
      log,
    })
    await api.ready()
    edge.attach(listener.server, api.routing)
    closers.add('the API', () => api.close())
    await listener.listen(config.host, config.port)
    closers.add('the listener', async () => {
      const closed = listener.close(closeGraceMs)
      // Upgraded connections belong to the edge alone: the listener would wait for them.
      edge.close()
      await closed
    })

    const server: ServerFile = {
      url: `${tls ? 'https' : 'http'}://${reachableHost(config.host)}:${config.port}`,
      domain: config.domain,
      tlsCert: config.tlsCert,
      pid: process.pid,
      startedAt: clock.now(),
    }
    await saveServerFile(paths, server)
    closers.add('the server file', () => removeServerFile(paths))
    log.info({ url: server.url, isolation: isolation.isolation }, 'serving')
    return { server, credentials, close: () => closers.closeAll() }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** An address to listen on is not always one to connect to. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}
