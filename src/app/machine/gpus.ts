/** Chooses the GPUs for sandboxes: those of this machine that the operator allows. */
import { join } from 'node:path'
import { findGpus, type GpuSources } from '../../drivers/host/device/find-gpus.ts'
import { type Gpu, isUsable, type MachineGpus, type NoGpus } from '../../drivers/host/device/gpus.ts'
import type { GpuOptions } from '../../drivers/oci/context/driver-options.ts'
import type { Config } from '../config/config.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { projectFolder } from '../project/project-folder.ts'

/** Why sandboxes get no GPU, and what the operator can do about it. */
type GpuProblem = { reason: string; remedy: string }

type GpuSettings = Pick<Config, 'gpus' | 'gpuShare'>

/** Rejects if the operator asks for GPUs that are missing or do not work; with `auto`, only logs the reason. */
export async function chooseGpus(
  { gpus: wanted, gpuShare: share }: GpuSettings,
  supportedDrivers: () => Promise<readonly string[] | undefined>,
  log: (message: string) => void,
  sources?: GpuSources,
): Promise<GpuOptions | undefined> {
  if (wanted === 'none') return undefined
  const found = findGpus(sources)
  const drivers = await supportedDrivers()
  const problem = gpuProblem(found, drivers) ?? missingGpus(wanted, found)
  if (!problem && isUsable(found)) {
    const gpus = found.gpus.filter((gpu) => isWanted(wanted, gpu) && !(drivers && gpu.isPart))
    const checkpointProgram = join(projectFolder, `native/built/gpu-checkpoint-${process.arch}`)
    return { machine: { ...found, gpus }, share, checkpointProgram }
  }
  const text = `Sandboxes get no GPU: ${problem?.reason}. ${problem?.remedy}`
  if (wanted !== 'auto') throw new StartRefusal('unavailable', `WARREN_GPUS asks for GPUs. ${text}`)
  if (!isUsable(found) && !found.hasDriver) return undefined
  log(text)
  return undefined
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
        'Install one of `runsc nvproxy list-supported-drivers`, or use WARREN_ISOLATION=container, which shares the kernel.',
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

const isWanted = (wanted: Config['gpus'], gpu: Gpu): boolean =>
  typeof wanted === 'string' || wanted.some((name) => isCalled(gpu, name))
