/** Checks whether sandboxes can use the GPUs of this machine. */
import { findGpus } from '../../drivers/host/device/find-gpus.ts'
import { isUsable, type MachineGpus, type NoGpus } from '../../drivers/host/device/gpus.ts'
import type { Config } from '../config/config.ts'
import { runtimeFolders } from '../isolation/isolation-runtime.ts'
import { gpuSupportOf } from '../machine/gpu-support.ts'
import { borrowedFor, borrowedProblem, type GpuSupport, gpuProblem, isWanted } from '../machine/gpus.ts'
import { type Finding, fail, ok, warn } from '../setup/finding.ts'
import type { MachineCheck } from './machine-check.ts'

/** The first driver that can move the memory of a GPU to the host. */
const savesMemorySince = 570

export function judgeGpus(
  found: MachineGpus | NoGpus,
  wanted: Config['gpus'],
  drivers: readonly string[] | undefined,
): Finding {
  if (!isUsable(found) && !found.hasDriver) {
    if (wanted === 'none' || wanted === 'auto') return ok('none here')
    return fail(`WARREN_GPUS asks for some, but ${found.reason}`, found.remedy)
  }
  const problem = gpuProblem(found, drivers)
  if (problem) {
    const mustHave = wanted !== 'none' && wanted !== 'auto'
    return (mustHave ? fail : warn)(problem.reason, problem.remedy)
  }
  const { gpus, driver, source } = found as MachineGpus
  const text = `${countModels(gpus.map(({ model }) => model))}, driver ${driver} (${source})`
  if (wanted === 'none') return ok(`${text}; sandboxes cannot use them: set WARREN_GPUS=auto to allow it`)
  if (drivers && Number(driver.split('.')[0]) < savesMemorySince) {
    const remedy = `Install driver ${savesMemorySince} or later, which can save GPU memory.`
    return warn(`${text}; sandboxes that use one cannot be paused`, remedy)
  }
  return ok(drivers ? `${text}; a pause keeps their memory` : `${text}; a paused container keeps its GPU`)
}

function countModels(models: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const model of models) counts.set(model, (counts.get(model) ?? 0) + 1)
  return [...counts].map(([model, count]) => `${count} × ${model}`).join(', ')
}

async function lookAtGpus(config: Config): Promise<Finding> {
  const folders = runtimeFolders(config)
  const support = await gpuSupportOf(config, ({ find }) => find(folders))
  return examineGpus(findGpus(), config, support)
}

/** Like a start, it lets a card compute if gVisor has to borrow an interface. */
export async function examineGpus(
  found: MachineGpus | NoGpus,
  config: Pick<Config, 'gpus' | 'gpuDriver'>,
  support: GpuSupport | undefined,
): Promise<Finding> {
  const wants = config.gpuDriver === 'nearest' && config.gpus !== 'none'
  const borrowed = wants && isUsable(found) ? borrowedFor(found, support) : undefined
  if (borrowed === undefined) return judgeGpus(found, config.gpus, support?.drivers)
  const machine = found as MachineGpus
  const gpus = machine.gpus.filter((gpu) => isWanted(config.gpus, gpu))
  const problem = await borrowedProblem({ ...machine, gpus }, support!, borrowed)
  const judged = judgeGpus(machine, config.gpus, [machine.driver])
  if (problem) return (config.gpus === 'auto' ? warn : fail)(problem.reason, problem.remedy)
  const text = `${judged.text}; gVisor takes the driver for ${borrowed} (WARREN_GPU_DRIVER=nearest), and a card computed so`
  return { ...judged, text }
}

export const gpuChecks: readonly MachineCheck[] = [{ name: 'GPU', look: lookAtGpus }]
