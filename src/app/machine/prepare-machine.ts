/** Everything that a start needs of the machine, got when it is missing; a second start finds it all there. */
import type { Config } from '../config/config.ts'
import type { DataPaths } from '../data/data-folder.ts'
import type { InstalledRuntime, InstalledRuntimes } from '../isolation/isolation-runtime.ts'
import { isolations, wantedOrWeaker } from '../isolation/isolations.ts'
import { type FetchBase, makeBaseRoot, parseBaseSource } from '../setup/base-root.ts'
import type { Progress } from '../setup/progress.ts'
import { installSystemPackages, systemNeeds } from '../setup/system-packages.ts'

export type PreparedMachine = {
  runtimes: InstalledRuntimes
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
  const runtimes: Record<string, InstalledRuntime> = {}
  for (const name of wantedOrWeaker(config.isolation, isolations)) {
    const hasStronger = Object.values(runtimes).some((runtime) => 'program' in runtime)
    const { install } = await isolations[name].loadRuntime()
    const folders = { runtimes: paths.runtimes, cache: config.cacheDir }
    runtimes[name] = await install(folders, progress, hasStronger)
  }
  const base = await makeBaseRoot(paths.templates, config.baseImage, config.cacheDir, progress, fetchBase)
  return { runtimes, baseRootFolder: base.folder }
}
