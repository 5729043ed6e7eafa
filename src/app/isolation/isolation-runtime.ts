/** How an isolation gets its runtime, runs sandboxes with it, and is examined by `warren doctor`. */
import type { Driver } from '../../core/ports/driver.ts'
import type { OciDriverOptions } from '../../drivers/oci/context/driver-options.ts'
import { dataPaths } from '../data/data-folder.ts'
import type { Finding } from '../setup/finding.ts'
import type { Progress } from '../setup/progress.ts'

/** The program that starts sandboxes, or why there is none, as a full sentence. */
export type InstalledRuntime = { program: string } | { missing: string }

export const installedProgram = (runtime: InstalledRuntime | undefined): string | undefined =>
  runtime && 'program' in runtime ? runtime.program : undefined

/** By isolation; without those that the operator does not want. */
export type InstalledRuntimes = Readonly<Partial<Record<string, InstalledRuntime>>>

export type RuntimeFolders = {
  /** The runtimes of this data folder. */
  runtimes: string
  cache: string
  /** The operator's own program for gVisor. */
  runsc: string | null
}

/** What drivers get to know about this Warren; each takes what it needs. */
export type DriverParts = Omit<OciDriverOptions, 'isolation' | 'runtimeBinary'>

/** The settings that decide how a runtime is examined. */
export type ExaminedSettings = Readonly<{
  gvisorPlatform: string
  runsc: string | null
  dataDir: string
  cacheDir: string
}>

export interface IsolationRuntime {
  /** Installs the runtime if it is missing. `hasStronger`: Warren can do without it. */
  install(folders: RuntimeFolders, progress: Progress, hasStronger: boolean): Promise<InstalledRuntime>
  /** Whether `install` has to download and build. Missing: never. */
  mustBuild?(folders: RuntimeFolders): boolean
  /** The program of an earlier installation. */
  find(folders: RuntimeFolders): string | undefined
  createDriver(program: string, parts: DriverParts): Driver
  /** Tries on this machine whether sandboxes start. `isRequired`: the operator accepts no other isolation. */
  examine(settings: ExaminedSettings, isRequired: boolean): Promise<Finding>
  /** The versions of the GPU driver that it knows. Missing: sandboxes use the machine's driver itself, so any. */
  gpuDrivers?(program: string): Promise<readonly string[]>
}

export const runtimeFolders = ({
  dataDir,
  cacheDir,
  runsc,
}: Pick<ExaminedSettings, 'dataDir' | 'cacheDir' | 'runsc'>): RuntimeFolders => ({
  runtimes: dataPaths(dataDir).runtimes,
  cache: cacheDir,
  runsc,
})
