/** Joins what builds templates: images, uploaded files, the cache, and sandboxes to build in. */
import { readFile, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { envdVersion } from '../contract/constants.ts'
import type { AgentPort } from '../core/agent.ts'
import type { Driver } from '../core/driver.ts'
import type { Images } from '../core/images.ts'
import type { LogStore } from '../core/logs.ts'
import { BuildSandboxes } from '../core/sandbox/build-sandboxes.ts'
import type { SandboxLauncher } from '../core/sandbox/launcher.ts'
import type { OngoingWork } from '../core/sandbox/ongoing-work.ts'
import type { SnapshotStore } from '../core/sandbox/snapshot-store.ts'
import type { SandboxTokens } from '../core/sandbox/tokens.ts'
import type { Stores, TemplateStore } from '../core/stores.ts'
import { BuildLog } from '../core/template/build-log.ts'
import { Building } from '../core/template/building.ts'
import type { TemplateCatalog } from '../core/template/catalog.ts'
import { DiskRoom } from '../core/template/disk-room.ts'
import { Pruning } from '../core/template/pruning.ts'
import type { TemplateBuild } from '../core/template/template.ts'
import { type ClosableImages, createImages } from '../images/images.ts'
import { StoredBuildFiles } from '../images/phases/build-files.ts'
import { StepBuilder } from '../images/phases/builder.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Config } from './config.ts'
import type { DataPaths } from './data-folder.ts'
import { sandboxOwner } from './isolation.ts'

export async function openImages(config: Config, paths: DataPaths): Promise<ClosableImages> {
  const ca = config.registryCA === null ? [] : [await readFile(config.registryCA, 'utf8')]
  return createImages({
    folder: join(paths.root, 'images'),
    ownerShift: sandboxOwner,
    mirrors: config.registryMirrors,
    allowPrivateRegistries: config.privateRegistries,
    insecureRegistries: config.insecureRegistries,
    certificateAuthorities: ca,
  })
}

/** Whoever starts a sandbox on one is told so; the operator had better know before. */
export async function warnOfMissingLayers(templates: TemplateStore, images: Images, log: Log): Promise<void> {
  const missing = images.missing(await templates.listLayers())
  if (missing.length === 0) return
  const text = `${missing.length} image layers that templates stand on are not on this machine: build these templates again`
  log.warn({ missing }, text)
}

export type BuildingOptions = {
  paths: DataPaths
  stores: Stores
  catalog: TemplateCatalog
  images: ClosableImages
  driver: Driver
  agent: AgentPort
  tokens: SandboxTokens
  launcher: SandboxLauncher
  snapshots: SnapshotStore
  ongoing: OngoingWork
  logs: LogStore
  clock: Clock
  log: Log
  /** What is kept of the log of each build, whatever else is told. */
  maxLogBytes: number
  /** So much of the disk stays free. */
  minFreeBytes: number
  baseBuild: () => Promise<TemplateBuild>
}

export type BuildParts = { building: Building; files: StoredBuildFiles; pruning: Pruning; room: DiskRoom }

export async function createBuilding(options: BuildingOptions): Promise<BuildParts> {
  const { paths, stores, catalog, images, snapshots, driver, agent, clock, logs, log, baseBuild } = options
  const { templates, sandboxes, buildCache: cache } = stores
  const buildSandboxes = new BuildSandboxes(options)
  const files = new StoredBuildFiles(join(paths.root, 'build-files'))
  await files.sweep()
  const pruning = new Pruning({ templates, sandboxes, cache, files, images, snapshots, driver, clock })
  const freeBytes = async () => {
    const { bavail, bsize } = await statfs(paths.root)
    return bavail * bsize
  }
  const room = new DiskRoom({ pruning, freeBytes, minFreeBytes: options.minFreeBytes, log })
  const builder = new StepBuilder({
    ...{ images, buildSandboxes, snapshots, files, cache, agent, clock, baseBuild },
    makeRoom: () => room.make(),
  })
  const buildLog = new BuildLog({ logs, maxBytes: options.maxLogBytes, clock, log })
  const building = new Building({
    ...{ templates, catalog, builder, buildLog, clock, envdVersion, log },
    requireRoom: () => room.require(),
  })
  return { building, files, pruning, room }
}
