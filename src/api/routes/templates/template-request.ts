/** Shared by the routes that request a build: checks name, tags and sizes in one place. */
import type { TemplateLegacy } from '../../../contract/rest/template.ts'
import type { Team } from '../../../core/team/team.ts'
import { type BuildSizes, type NewBuild, tagsOf } from '../../../core/template/build-service.ts'
import { parseTag, type TemplateReference } from '../../../core/template/reference.ts'
import { parseOwnName } from '../../../core/template/service.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'
import { presentTemplate } from '../../present-template.ts'

const longestName = 128

type RequestedSizes = { cpuCount?: number; memoryMB?: number; minFreeDiskMb?: number; gpuCount?: number }

export function requestBuild(
  { builds, sizes }: RouteContext,
  team: Team,
  name: string,
  tags: string[],
  requested: RequestedSizes,
): Promise<NewBuild> {
  const parsed = nameOf(team, name)
  return builds.request(team, parsed, tagsOf(parsed, tags.map(parseTag)), sizesOf(sizes, requested))
}

/** Parses the name of a template of the team. */
export function nameOf(team: Team, name: string): TemplateReference {
  if (name.length > longestName) {
    throw new AppError('invalid_argument', `Invalid name: at most ${longestName} characters are allowed`)
  }
  return parseOwnName(team, name)
}

/** The answer to older clients that request a build. */
export async function presentRequested(
  { templates }: RouteContext,
  team: Team,
  { template, build }: NewBuild,
): Promise<TemplateLegacy> {
  const { summary } = await templates.read(team, template.templateID, { limit: 1 })
  const { cpuCount, memoryMB, diskMB, envdVersion, buildID } = build
  const { names: _names, buildStatus: _status, ...shown } = presentTemplate(summary)
  return { ...shown, cpuCount, memoryMB, diskSizeMB: diskMB, envdVersion, buildID }
}

export function sizesOf(sizes: RouteContext['sizes'], requested: RequestedSizes): BuildSizes {
  const cpuCount = requested.cpuCount ?? sizes.cpu.usual
  const memoryMB = requested.memoryMB ?? sizes.memoryMB.usual
  const diskMB = sizes.diskMB.usual + (requested.minFreeDiskMb ?? 0)
  const reject = (message: string) => new AppError('invalid_argument', message)
  // The schema has the lower bounds. These texts are E2B's.
  if (cpuCount !== 1 && cpuCount % 2 !== 0) throw reject('CPU count must be 1 or an even number')
  if (cpuCount > sizes.cpu.max) throw reject(`CPU count must be at most ${sizes.cpu.max}`)
  if (memoryMB % 2 !== 0) throw reject('Memory must be divisible by 2')
  if (memoryMB > sizes.memoryMB.max) throw reject(`Memory can't be higher than ${sizes.memoryMB.max} MiB`)
  if (diskMB > sizes.diskMB.max) throw reject(`Disk exceeds the maximum of ${sizes.diskMB.max} MiB`)
  const { gpuCount } = requested
  return { cpuCount, memoryMB, diskMB, ...(gpuCount !== undefined && { gpuCount }) }
}
