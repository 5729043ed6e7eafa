/** What the routes that request a build share: the name, the tags and the sizes are checked in one place. */
import type { Team } from '../../../core/team/team.ts'
import { type BuildSizes, type NewBuild, tagsOf } from '../../../core/template/build-service.ts'
import { parseTag } from '../../../core/template/reference.ts'
import { parseOwnName } from '../../../core/template/service.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'

const longestName = 128

type RequestedSizes = { cpuCount?: number; memoryMB?: number; minFreeDiskMb?: number }

export function requestBuild(
  { builds, sizes }: RouteContext,
  team: Team,
  name: string,
  tags: string[],
  requested: RequestedSizes,
): Promise<NewBuild> {
  if (name.length > longestName) {
    throw new AppError('invalid_argument', `Invalid name: at most ${longestName} characters are allowed`)
  }
  const parsed = parseOwnName(team, name)
  return builds.request(team, parsed, tagsOf(parsed, tags.map(parseTag)), sizesOf(sizes, requested))
}

function sizesOf(sizes: RouteContext['sizes'], requested: RequestedSizes): BuildSizes {
  const cpuCount = requested.cpuCount ?? sizes.cpu.usual
  const memoryMB = requested.memoryMB ?? sizes.memoryMB.usual
  const diskMB = sizes.diskMB.usual + (requested.minFreeDiskMb ?? 0)
  const reject = (message: string) => new AppError('invalid_argument', message)
  if (cpuCount < 1 || (cpuCount !== 1 && cpuCount % 2 !== 0)) {
    throw reject(`CPU count must be 1 or an even number, not ${cpuCount}`)
  }
  if (cpuCount > sizes.cpu.most) throw reject(`CPU count exceeds the maximum of ${sizes.cpu.most}`)
  if (memoryMB < 128) throw reject(`Memory must be at least 128 MiB, not ${memoryMB}`)
  if (memoryMB % 2 !== 0) throw reject(`Memory must be an even number of MiB, not ${memoryMB}`)
  if (memoryMB > sizes.memoryMB.most) throw reject(`Memory exceeds the maximum of ${sizes.memoryMB.most} MiB`)
  if (diskMB > sizes.diskMB.most) throw reject(`Disk exceeds the maximum of ${sizes.diskMB.most} MiB`)
  return { cpuCount, memoryMB, diskMB }
}
