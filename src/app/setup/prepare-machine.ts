/** Everything that a start needs of the machine, got when it is missing; a second start finds it all there. */
import type { Config } from '../config.ts'
import type { DataPaths } from '../data-folder.ts'
import { type FetchBase, makeBaseRoot, parseBaseSource } from './base-root.ts'
import { installRunsc } from './gvisor.ts'
import { findSystemProgram } from './programs.ts'
import type { Progress } from './progress.ts'
import { installContainerRuntime, installSystemPackages, systemNeeds } from './system-packages.ts'

export type Runtimes = {
  runc: string
  runsc: string | undefined
  /** Why there is no runsc though it was wanted. */
  runscMissing: string | undefined
}

export type PreparedMachine = {
  runtimes: Runtimes
  baseRootFolder: string
}

export async function prepareMachine(
  config: Config,
  paths: DataPaths,
  progress: Progress,
  fetchBase?: FetchBase,
): Promise<PreparedMachine> {
  parseBaseSource(config.baseImage)
  await installSystemPackages(systemNeeds, progress)
  const runsc =
    config.isolation === 'container'
      ? undefined
      : await installRunsc(paths.runtimes, config.cacheDir, progress)
  const hasGvisor = runsc !== undefined && 'path' in runsc
  await installContainerRuntime(hasGvisor, progress)
  const base = await makeBaseRoot(paths.templates, config.baseImage, config.cacheDir, progress, fetchBase)
  return {
    runtimes: {
      runc: findSystemProgram('runc') ?? 'runc',
      runsc: hasGvisor ? runsc.path : undefined,
      runscMissing: runsc && 'missing' in runsc ? runsc.missing : undefined,
    },
    baseRootFolder: base.folder,
  }
}
