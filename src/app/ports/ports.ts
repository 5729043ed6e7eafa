/** Opens the domain's ports on this machine: driver, database, images, logs, the egress gate. */

import { join } from 'node:path'
import { createAgentClient } from '../../agent-client/agent-client.ts'
import type { AgentProgram } from '../../core/ports/agent-program.ts'
import type { Driver } from '../../core/ports/driver.ts'
import { LogCollector } from '../../core/sandbox/monitoring/log-collector.ts'
import { RouteTable } from '../../core/sandbox/network/routes.ts'
import { SecretVault } from '../../core/secret/vault.ts'
import type { BuildFiles } from '../../core/template/builder.ts'
import type { TemplateBuild } from '../../core/template/template.ts'
import type { ClosableImages } from '../../images/images.ts'
import { LocalBuildFiles } from '../../images/phases/build-files.ts'
import { StepBuilder } from '../../images/phases/builder.ts'
import { SharedBuildFiles } from '../../images/phases/shared-build-files.ts'
import { systemClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { LogFiles } from '../../logs/log-files.ts'
import { openStores } from '../../store/open-stores.ts'
import type { Stores } from '../../store/stores.ts'
import { LocalVolumes } from '../../volumes/local-volumes.ts'
import type { Config } from '../config/config.ts'
import { type DataPaths, loadSecretKey, type Node } from '../data/data-folder.ts'
import { FileReserve, freeBytes, readDiskLevels } from '../data/disk-reserve.ts'
import type { DomainPorts } from '../domain/domain-ports.ts'
import { sandboxOwner } from '../isolation/sandbox-owner.ts'
import { stopWritersOnFullDisk } from '../machine/full-disk-start.ts'
import { readMachine } from '../machine/machine.ts'
import type { Closers } from '../process/shutdown.ts'
import { guardObjects } from '../storage/guard-objects.ts'
import { openImages, warnOfMissingLayers } from '../storage/open-images.ts'
import { baseLayer, type OpenedObjects, openObjects } from '../storage/open-objects.ts'
import { snapshotFolders } from '../storage/snapshot-folders.ts'
import { countDecisions, countWarmStarts } from '../telemetry/counters.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { tracedAgent, tracedBuilder, tracedStores } from '../telemetry/trace-ports.ts'
import { registerBaseTemplate } from '../templates/base-template.ts'
import { codeInterpreterRecipe } from '../templates/code-interpreter-recipe.ts'
import { desktopRecipe } from '../templates/desktop-recipe.ts'
import { dockerRecipe } from '../templates/docker-recipe.ts'
import { mcpGatewayRecipe } from '../templates/mcp-gateway-recipe.ts'
import { pytorchRecipe } from '../templates/pytorch-recipe.ts'
import { readExtraCA } from '../trust/extra-ca.ts'
import { logHostAuthorities } from '../trust/host-authorities.ts'
import { createIsClosed, createLookup, openGate } from './egress-gate.ts'
import { openSecrets } from './open-secrets.ts'
import { openSignIn } from './open-sign-in.ts'
import { openWebhooks } from './open-webhooks.ts'

const clock = systemClock
const mebibyte = 1024 * 1024

type PortParts = {
  config: Config
  paths: DataPaths
  driver: Driver
  /** The prepared root of the base template. */
  baseRootFolder: string
  agentProgram: AgentProgram
  node: Node
  telemetry: Telemetry
  log: Log
}

export type OpenedPorts = Awaited<ReturnType<typeof openPorts>>

export async function openPorts(parts: PortParts, closers: Closers) {
  const { config, paths, driver, baseRootFolder, node, telemetry, log } = parts
  const { tracer } = telemetry
  const extraCA = config.extraCA === null ? undefined : readExtraCA(config.extraCA)
  if (config.extraCA === 'host') logHostAuthorities(log)
  const diskLevels = await readDiskLevels(paths.root, config.diskReserveMB)
  const diskReserve = new FileReserve(paths.root, diskLevels.reserveBytes)
  const diskFreeBytes = () => freeBytes(paths.root)
  closers.add('the driver', () => driver.close())
  const endedForSpace = await stopWritersOnFullDisk({
    driver,
    clock,
    log,
    freeBytes: diskFreeBytes,
    levels: diskLevels,
    reserve: diskReserve,
  })
  await driver.open()
  const vault = new SecretVault(await loadSecretKey(paths))
  const url = config.databaseUrl ?? undefined
  const connections = config.databaseConnections
  const opening = openStores({ url, connections, dataFolder: paths.root, vault, ...node })
  const stores = tracedStores(await opening, tracer)
  closers.add('the store', () => stores.close())
  const secrets = await openSecrets({ stores, vault, paths, clock, log })
  const agent = tracedAgent(createAgentClient(), tracer)
  const routes = new RouteTable()
  const logs = openLogs(config, paths)
  const collector = new LogCollector({ agent, logs, routes, clock, log })
  closers.add('collecting logs', () => collector.close())
  const found = await openObjects(config)
  const opened = found && (await guardObjects(found, { config, stores, paths, clock, log }))
  if (opened) closers.add('the object store', () => opened.close())
  opened?.prepare()
  const images = await openImages(config, paths, extraCA, opened?.packs, log)
  closers.add('the images', () => images.close())
  const buildFiles = await openBuildFiles(paths, opened, log)
  const base = await ensureBaseTemplate(config, stores, await baseLayer(images, baseRootFolder, opened, log))
  await warnOfMissingLayers(stores.templates, images, log)
  const volumeDisks = new LocalVolumes({
    folder: paths.volumes,
    firstOwner: sandboxOwner,
    clock,
    log,
    hasSpaceFor: async (bytes) => (await diskFreeBytes()) - bytes >= diskLevels.startBytes,
  })
  await volumeDisks.open()
  closers.add('the volumes', () => volumeDisks.close())
  const isClosed = createIsClosed(config.allowPrivateEgress, config.subnet, clock)
  const onDecision = countDecisions(telemetry.measures)
  const openedGate = await openGate({
    config,
    paths,
    driver,
    secrets,
    isClosed,
    extraCA,
    clock,
    log,
    onDecision,
  })
  if (openedGate) closers.add('the egress gate', () => openedGate.gate.close())
  const lookup = createLookup(config.dnsServers, clock)
  const webhooks = openWebhooks({ stores, vault, lookup, isClosed, extraCA, clock, log })
  const ports: DomainPorts = {
    stores,
    driver,
    agent,
    agentProgram: parts.agentProgram,
    routes,
    logs,
    images,
    buildFiles,
    isClosed,
    extraCA,
    clock,
    log,
    ...(opened && images.remoteLayers && { objectStorage: { ...opened, layers: images.remoteLayers } }),
    gate: openedGate?.gate,
    authority: openedGate?.authority,
    lookup,
    snapshotFolders: snapshotFolders(paths.snapshots),
    volumeDisks,
    appendLog: (sandboxID, entry) => collector.append(sandboxID, entry),
    recipes: [codeInterpreterRecipe, desktopRecipe, dockerRecipe, mcpGatewayRecipe, pytorchRecipe].map(
      (recipe) => recipe(config.defaultDiskMB, driver.gpus !== undefined),
    ),
    machine: readMachine(config.memoryMB, driver),
    tracer,
    onAcquire: countWarmStarts(telemetry.measures),
    freeBytes: diskFreeBytes,
    diskReserve,
    rootsOf: (build) => rootsOf(build, images, paths),
    createBuilder: (tools) => {
      const builder = new StepBuilder({
        buildSandboxes: tools.buildSandboxes,
        snapshots: tools.snapshots,
        freeDiskSpace: tools.freeDiskSpace,
        images,
        files: buildFiles,
        cache: stores.buildCache,
        agent,
        clock,
        baseBuild: async () => (await stores.templates.findBuild(base.buildID))!,
      })
      return tracedBuilder(builder, tracer)
    },
  }
  return {
    ...ports,
    diskLevels,
    endedForSpace,
    buildFiles,
    logs,
    secrets,
    webhooks,
    signIn: openSignIn(config, { stores, vault, clock, log }),
    base,
    baseRootFolder,
    telemetry,
    vault,
  }
}

function openLogs(config: Config, paths: DataPaths): LogFiles {
  return new LogFiles({
    folder: join(paths.root, 'logs'),
    maxBytesPerSandbox: config.logsPerSandboxMB * mebibyte,
    maxBytesTotal: config.logsTotalMB * mebibyte,
  })
}

async function openBuildFiles(
  paths: DataPaths,
  opened: OpenedObjects | undefined,
  log: Log,
): Promise<BuildFiles> {
  const own = new LocalBuildFiles(join(paths.root, 'build-files'))
  await own.sweep()
  return opened ? new SharedBuildFiles(own, opened.packs, log) : own
}

async function ensureBaseTemplate(config: Config, stores: Stores, layer: string): Promise<TemplateBuild> {
  const layers = [layer]
  const { defaultCPU: cpuCount, defaultMemoryMB: memoryMB, defaultDiskMB: diskMB } = config
  return registerBaseTemplate(stores.templates, { layers, cpuCount, memoryMB, diskMB }, clock)
}

/** Returns the layers of a build, the nearest first. A build without layers has one folder below the data folder. */
function rootsOf(
  { layers, rootFolder }: TemplateBuild,
  images: ClosableImages,
  paths: DataPaths,
): [string, ...string[]] {
  const folders = layers ? images.layerFolders(layers.toReversed()) : [join(paths.root, rootFolder ?? '')]
  return folders as [string, ...string[]]
}
