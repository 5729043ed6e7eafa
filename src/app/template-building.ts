/** Joins what builds templates: images, uploaded files, the cache, and sandboxes to build in. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { envdVersion } from '../contract/constants.ts'
import type { AgentPort } from '../core/agent.ts'
import type { Driver } from '../core/driver.ts'
import type { LogStore } from '../core/logs.ts'
import type { SandboxLauncher } from '../core/sandbox/launcher.ts'
import type { SavedStates } from '../core/sandbox/saved-states.ts'
import type { SandboxTokens } from '../core/sandbox/tokens.ts'
import type { Underway } from '../core/sandbox/underway.ts'
import { Workshop } from '../core/sandbox/workshop.ts'
import type { Stores } from '../core/stores.ts'
import { BuildLog } from '../core/template/build-log.ts'
import { Building } from '../core/template/building.ts'
import type { TemplateCatalog } from '../core/template/catalog.ts'
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

export type BuildingOptions = {
  paths: DataPaths
  stores: Stores
  catalog: TemplateCatalog
  images: ClosableImages
  driver: Driver
  agent: AgentPort
  tokens: SandboxTokens
  launcher: SandboxLauncher
  saved: SavedStates
  underway: Underway
  logs: LogStore
  clock: Clock
  log: Log
  baseBuild: () => Promise<TemplateBuild>
}

export function createBuilding(options: BuildingOptions): { building: Building; files: StoredBuildFiles } {
  const { paths, stores, catalog, images, saved, agent, clock, logs, log, baseBuild } = options
  const workshop = new Workshop(options)
  const files = new StoredBuildFiles(join(paths.root, 'build-files'))
  const builder = new StepBuilder({
    ...{ images, workshop, saved, files, agent, clock, baseBuild },
    cache: stores.buildCache,
  })
  const buildLog = new BuildLog({ logs, clock, log })
  const { templates } = stores
  const building = new Building({ templates, catalog, builder, buildLog, clock, envdVersion, log })
  return { building, files }
}
