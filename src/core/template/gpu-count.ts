/** Number of GPUs of a template's sandboxes, and of one sandbox. */
import { AppError } from '../../lib/app-error.ts'
import type { TemplateBuild } from './template.ts'

/** Clients whose SDK has no field for GPUs set this variable in a build, or the metadata key for one sandbox. */
const gpuVariable = 'WARREN_GPUS'
const gpuMetadataKey = 'warren.gpus'
const maxGpus = 16
/** The variable of NVIDIA's own runtime, by which an image says that it wants no GPU. Its other values choose cards, which Warren does. */
const visibleVariable = 'NVIDIA_VISIBLE_DEVICES'
const noDevices = ['none', 'void']

const wantsNone = (envVars: Readonly<Record<string, string>>): boolean =>
  noDevices.includes(envVars[visibleVariable]?.trim() ?? '')

function parseGpuCount(text: string, said: string): number {
  const count = /^\d{1,2}$/.test(text.trim()) ? Number(text) : undefined
  if (count !== undefined && count <= maxGpus) return count
  throw new AppError(
    'invalid_argument',
    `${said} must be a number of GPUs from 0 to ${maxGpus}, not '${text}'`,
  )
}

/** Returns the number of GPUs of one sandbox: from its metadata, or else 0 if its variables say so, or else from its template. */
export function wantedGpus(
  { gpuCount = 0 }: Pick<TemplateBuild, 'gpuCount'>,
  metadata: Readonly<Record<string, string>>,
  envVars: Readonly<Record<string, string>> = {},
): number {
  const asked = metadata[gpuMetadataKey]
  if (asked !== undefined) return parseGpuCount(asked, gpuMetadataKey)
  return wantsNone(envVars) ? 0 : gpuCount
}

/**
 * Returns the number of GPUs of a build: from its request, which wins as `docker run --gpus` does, or else its variables, or else its
 * base template.
 */
export function gpuCountOf(
  { gpuCount, envVars }: Pick<TemplateBuild, 'gpuCount' | 'envVars'>,
  base?: Pick<TemplateBuild, 'gpuCount'>,
): number {
  if (gpuCount !== undefined) return gpuCount
  const variable = envVars[gpuVariable]
  if (variable !== undefined) return parseGpuCount(variable, `The variable ${gpuVariable}`)
  return wantsNone(envVars) ? 0 : (base?.gpuCount ?? 0)
}
