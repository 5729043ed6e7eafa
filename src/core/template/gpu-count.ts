/** How many GPUs the sandboxes of a template get, where not the client says it. */
import { AppError } from '../../lib/app-error.ts'
import type { TemplateBuild } from './template.ts'

/** By this variable a client that knows nothing of GPUs asks for them in a build, and by the key for one sandbox. */
export const gpuVariable = 'WARREN_GPUS'
const gpuMetadataKey = 'warren.gpus'
const mostGpus = 16

export function parseGpuCount(text: string, said: string): number {
  const count = /^\d{1,2}$/.test(text.trim()) ? Number(text) : undefined
  if (count !== undefined && count <= mostGpus) return count
  throw new AppError(
    'invalid_argument',
    `${said} must be a number of GPUs from 0 to ${mostGpus}, not '${text}'`,
  )
}

/** Of one sandbox: what its metadata says, else its template. */
export function wantedGpus(
  { gpuCount = 0 }: Pick<TemplateBuild, 'gpuCount'>,
  metadata: Readonly<Record<string, string>>,
): number {
  const asked = metadata[gpuMetadataKey]
  return asked === undefined ? gpuCount : parseGpuCount(asked, gpuMetadataKey)
}

/** What the build was requested with comes first, then its variable, then the template that it begins with. */
export function gpuCountOf(
  { gpuCount, envVars }: Pick<TemplateBuild, 'gpuCount' | 'envVars'>,
  base?: Pick<TemplateBuild, 'gpuCount'>,
): number {
  if (gpuCount !== undefined) return gpuCount
  const variable = envVars[gpuVariable]
  return variable === undefined
    ? (base?.gpuCount ?? 0)
    : parseGpuCount(variable, `The variable ${gpuVariable}`)
}
