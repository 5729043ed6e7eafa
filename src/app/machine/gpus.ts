/** Chooses the GPUs for sandboxes: those of this machine that the operator allows. */
import { join } from 'node:path'
import { findGpus, type GpuSources } from '../../drivers/host/device/find-gpus.ts'
import { type Gpu, isUsable, type MachineGpus, type NoGpus } from '../../drivers/host/device/gpus.ts'
import type { GpuOptions } from '../../drivers/oci/context/driver-options.ts'
import type { Config } from '../config/config.ts'
import { lastWords } from '../isolation/start-something.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { projectFolder } from '../project/project-folder.ts'

/** Why sandboxes get no GPU, and what the operator can do about it. */
type GpuProblem = { reason: string; remedy: string }

type GpuSettings = Pick<Config, 'gpus' | 'gpuShare' | 'gpuDriver'>

/** What gVisor needs to use the cards. Undefined: sandboxes use the machine's driver itself. */
export type GpuSupport = {
  /** The versions of the driver that it knows. */
  drivers: readonly string[]
  /** Lets a card compute by the interface of another version; rejects if it does not. */
  tryCard(machine: MachineGpus, card: Gpu, borrowedInterface: string): Promise<void>
}

export const ownProgram = (): string => join(projectFolder, `native/built/gpu-checkpoint-${process.arch}`)

/** Rejects if the operator asks for GPUs that are missing or do not work; with `auto`, only logs the reason. */
export async function chooseGpus(
  { gpus: wanted, gpuShare: share, gpuDriver }: GpuSettings,
  findSupport: () => Promise<GpuSupport | undefined>,
  log: (message: string) => void,
  sources?: GpuSources,
): Promise<GpuOptions | undefined> {
  if (wanted === 'none') return undefined
  const found = findGpus(sources)
  const support = await findSupport()
  const borrowed = gpuDriver === 'nearest' && isUsable(found) ? borrowedFor(found, support) : undefined
  const known = borrowed === undefined ? support?.drivers : undefined
  let problem = gpuProblem(found, known) ?? missingGpus(wanted, found)
  if (!problem && isUsable(found)) {
    const gpus = found.gpus.filter((gpu) => isWanted(wanted, gpu) && !(support && gpu.isPart))
    const machine = { ...found, gpus }
    if (borrowed !== undefined) problem = await borrowedProblem(machine, support!, borrowed)
    if (!problem) {
      const borrowedInterface = borrowed === undefined ? {} : { borrowedInterface: borrowed }
      return { machine, share, checkpointProgram: ownProgram(), ...borrowedInterface }
    }
  }
  const text = `Sandboxes get no GPU: ${problem?.reason}. ${problem?.remedy}`
  if (wanted !== 'auto') throw new StartRefusal('unavailable', `WARREN_GPUS asks for GPUs. ${text}`)
  if (!isUsable(found) && !found.hasDriver) return undefined
  log(text)
  return undefined
}

/** The known version of the same branch that is nearest: the newest that is not newer, or else the oldest. */
export function nearestDriver(driver: string, known: readonly string[]): string | undefined {
  const branch = driver.split('.')[0]
  const ofBranch = known.filter((version) => version.split('.')[0] === branch).toSorted(byVersion)
  return ofBranch.findLast((version) => byVersion(version, driver) <= 0) ?? ofBranch[0]
}

function byVersion(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => version.split('.').map(Number))
  const at = a!.findIndex((number, index) => number !== b![index])
  return at === -1 ? 0 : a![at]! - (b![at] ?? -1)
}

/** Undefined if gVisor knows the driver itself, or no version of its branch. */
export function borrowedFor(
  { driver }: MachineGpus,
  support: Pick<GpuSupport, 'drivers'> | undefined,
): string | undefined {
  if (!support || support.drivers.includes(driver)) return undefined
  return nearestDriver(driver, support.drivers)
}

/** Tries one card: all cards of a machine have the same driver. */
export async function borrowedProblem(
  machine: MachineGpus,
  support: GpuSupport,
  borrowedInterface: string,
): Promise<GpuProblem | undefined> {
  const card = machine.gpus.find(({ isPart }) => !isPart)
  if (!card) return gpuProblem(machine, [machine.driver])
  try {
    await support.tryCard(machine, card, borrowedInterface)
    return undefined
  } catch (error) {
    return {
      reason: `the driver ${machine.driver} does not work by the interface of ${borrowedInterface}: ${lastWords(error)}`,
      remedy:
        'Install one of `runsc nvproxy list-supported-drivers`, or use WARREN_ISOLATION=container, which shares the kernel.',
    }
  }
}

/** `drivers`: the versions of the driver that the isolation of sandboxes supports; undefined: any. */
export function gpuProblem(
  found: MachineGpus | NoGpus,
  drivers: readonly string[] | undefined,
): GpuProblem | undefined {
  if (!isUsable(found)) return found
  if (drivers && !drivers.includes(found.driver)) {
    const newest = drivers.at(-1) ?? 'none'
    return {
      reason: `this gVisor does not know the driver ${found.driver}; it knows ${drivers.length} versions up to ${newest}`,
      remedy:
        'Set WARREN_GPU_DRIVER=nearest, install one of `runsc nvproxy list-supported-drivers`, or use WARREN_ISOLATION=container, which shares the kernel.',
    }
  }
  if (drivers && found.gpus.every(({ isPart }) => isPart)) {
    return {
      reason: 'gVisor cannot use parts of a card, and MIG has split every card of this machine',
      remedy: 'Turn MIG off (nvidia-smi -mig 0), or use WARREN_ISOLATION=container, which shares the kernel.',
    }
  }
  if (found.libraries.some((path) => /\/libcuda\.so\./.test(path))) return undefined
  return {
    reason: `the libraries of the driver ${found.driver} were not found`,
    remedy:
      'Install them (libcuda.so), or write a CDI specification: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml',
  }
}

function missingGpus(wanted: Config['gpus'], found: MachineGpus | NoGpus): GpuProblem | undefined {
  if (typeof wanted === 'string' || !isUsable(found)) return undefined
  const missing = wanted.filter((name) => !found.gpus.some((gpu) => isCalled(gpu, name)))
  if (missing.length === 0) return undefined
  const there = found.gpus.map(({ index, id }) => `${index} (${id})`).join(', ')
  return { reason: `WARREN_GPUS names ${missing.join(', ')}`, remedy: `This machine has ${there}.` }
}

const isCalled = ({ index, id }: Gpu, name: string): boolean => index === name || id === name

export const isWanted = (wanted: Config['gpus'], gpu: Gpu): boolean =>
  typeof wanted === 'string' || wanted.some((name) => isCalled(gpu, name))
