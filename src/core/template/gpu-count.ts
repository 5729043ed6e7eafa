/** How many GPUs the sandboxes of a template get, where not the client says it. */
import { AppError } from '../../lib/app-error.ts'
import type { TemplateBuild } from './template.ts'

/** By this variable a client that knows nothing of GPUs asks for them in a build, and by the key for one sandbox. */
export const gpuVariable = 'WARREN_GPUS'
const gpuMetadataKey = 'warren.gpus'
const mostGpus = 16
/** The variable of NVIDIA's own runtime, by which an image says that it wants no GPU. Its other values choose cards, which Warren does. */
const visibleVariable = 'NVIDIA_VISIBLE_DEVICES'
const noDevices = ['none', 'void']

const wantsNone = (envVars: Readonly<Record<string, string>>): boolean =>
  noDevices.includes(envVars[visibleVariable]?.trim() ?? '')

export function parseGpuCount(text: string, said: string): number {
  const count = /^\d{1,2}$/.test(text.trim()) ? Number(text) : undefined
  if (count !== undefined && count <= mostGpus) return count
  throw new AppError(
    'invalid_argument',
    `${said} must be a number of GPUs from 0 to ${mostGpus}, not '${text}'`,
  )
}

/** Of one sandbox: what its metadata says, else none where its own variables say so, else its template. */
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
 * What the build was requested with comes first, as `docker run --gpus` does, then its variables, then the template that it begins
 * with.
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
