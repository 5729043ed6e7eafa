/** Everything that a start needs of the machine, got when it is missing; a second start finds it all there. */
import { statfs } from 'node:fs/promises'
import { allDone } from '../../lib/all-done.ts'
import { nearestFolder } from '../../lib/nearest-folder.ts'
import type { Config } from '../config/config.ts'
import type { DataPaths } from '../data/data-folder.ts'
import type { InstalledRuntime, InstalledRuntimes } from '../isolation/isolation-runtime.ts'
import { isolations, wantedOrWeaker } from '../isolation/isolations.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { type FetchBase, makeBaseRoot, mustBuildBase } from '../setup/base-root.ts'
import type { Progress } from '../setup/progress.ts'
import { baseNeeds, downloadNeeds, installSystemPackages, systemNeeds } from '../setup/system-packages.ts'

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
  const buildsBase = mustBuildBase(paths.templates, config.baseImage, config.cacheDir)
  const folders = { runtimes: paths.runtimes, cache: config.cacheDir, runsc: config.runsc }
  const wanted = wantedOrWeaker(config.isolation, isolations)
  const loaded = await Promise.all(
    wanted.map(async (name) => ({ name, runtime: await isolations[name].loadRuntime() })),
  )
  const buildsRuntime = loaded.some(({ runtime }) => runtime.mustBuild?.(folders))
  if (buildsBase || buildsRuntime) await refuseLittleSpace(config)
  const needs = [
    ...systemNeeds,
    ...(buildsBase ? baseNeeds : []),
    ...(buildsBase || buildsRuntime ? downloadNeeds : []),
  ]
  await installSystemPackages(needs, progress)
  const installRuntimes = async () => {
    const runtimes: Record<string, InstalledRuntime> = {}
    for (const { name, runtime } of loaded) {
      const hasStronger = Object.values(runtimes).some((one) => 'program' in one)
      runtimes[name] = await runtime.install(folders, progress, hasStronger)
    }
    return runtimes
  }
  // Neither needs the other. If one fails, the next start finds what the other has made.
  const installing = installRuntimes()
  const making = makeBaseRoot(paths.templates, config.baseImage, config.cacheDir, progress, fetchBase)
  await allDone([installing, making])
  return { runtimes: await installing, baseRootFolder: (await making).folder }
}

/** What the base template, its packed copy and the build of gVisor take for a while. */
const spaceToBuildMB = 4096

/** Before the long work of a first start, so that nobody waits minutes for an error. */
async function refuseLittleSpace({ dataDir, cacheDir }: Config): Promise<void> {
  for (const [name, folder] of [
    ['WARREN_DATA_DIR', dataDir],
    ['WARREN_CACHE_DIR', cacheDir],
  ] as const) {
    const { bavail, bsize } = await statfs(nearestFolder(folder))
    const freeMB = Math.floor((bavail * bsize) / 1024 ** 2)
    if (freeMB >= spaceToBuildMB) continue
    throw new StartRefusal(
      'no_space',
      `The disk of ${folder} has ${freeMB} MB left, and a first start needs ${spaceToBuildMB} MB to make the base template and gVisor: free some, or name a folder on a bigger disk by ${name}.`,
    )
  }
}
