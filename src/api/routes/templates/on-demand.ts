/** What a create says about an image or a size of its own, in the metadata that every client can send. */
import { onDemandKeys as keys } from '../../../contract/constants.ts'
import type { NewOnDemandTemplate } from '../../../contract/rest/on-demand.ts'
import type { NewSandbox } from '../../../contract/rest/sandbox.ts'
import type { Team } from '../../../core/team/team.ts'
import type { OnDemandRequest } from '../../../core/template/on-demand-templates.ts'
import { AppError } from '../../../lib/app-error.ts'
import { memoryInMB } from '../../../lib/memory-size.ts'
import type { RouteContext } from '../../context.ts'
import { sizesOf } from './template-request.ts'

/** Clients that name no template send this one. */
const defaultTemplate = 'base'
/** As for every build. */
const minMemoryMB = 128
const longestImage = 384

/** Undefined if the create wants a template as it is. */
export function onDemandOf(
  context: Pick<RouteContext, 'sizes'>,
  { templateID, metadata }: Pick<NewSandbox, 'templateID' | 'metadata'>,
): OnDemandRequest | undefined {
  const { [keys.image]: image, [keys.cpu]: cpu, [keys.memory]: memory } = metadata ?? {}
  if (image === undefined && cpu === undefined && memory === undefined) return undefined
  if (image !== undefined && templateID !== defaultTemplate)
    throw wrong(`${keys.image} and the template '${templateID}' exclude each other; leave one out`)
  const memoryMB = memory === undefined ? undefined : memoryInMB(memory)
  if (memory !== undefined && (memoryMB === undefined || memoryMB < minMemoryMB))
    throw wrong(
      `${keys.memory} must be MiB from ${minMemoryMB} on, or have a unit such as 4g, not '${memory}'`,
    )
  if (cpu !== undefined && !/^[1-9]\d{0,2}$/.test(cpu))
    throw wrong(`${keys.cpu} must be a number of CPUs, not '${cpu}'`)
  return checkedOnDemand(context, {
    ...(image !== undefined && { image }),
    template: templateID,
    ...(cpu !== undefined && { cpuCount: Number(cpu) }),
    ...(memoryMB !== undefined && { memoryMB }),
  })
}

/** Rejects sizes that no build may have. */
export function checkedOnDemand(
  { sizes }: Pick<RouteContext, 'sizes'>,
  { image, template = defaultTemplate, cpuCount, memoryMB }: NewOnDemandTemplate,
): OnDemandRequest {
  if (image !== undefined && (image.trim() === '' || image.length > longestImage))
    throw wrong(`the image must have a name of 1 to ${longestImage} characters`)
  sizesOf(sizes, { ...(cpuCount !== undefined && { cpuCount }), ...(memoryMB !== undefined && { memoryMB }) })
  return { from: image === undefined ? { template } : { image: image.trim() }, cpuCount, memoryMB }
}

/** Waits for the template of a create. */
export function requireTemplate(
  { onDemand, sizes }: Pick<RouteContext, 'onDemand' | 'sizes'>,
  team: Team,
  wanted: OnDemandRequest,
): Promise<string> {
  return onDemand.require(team, wanted, sizesOf(sizes, {}))
}

const wrong = (message: string): AppError => new AppError('invalid_argument', message)
