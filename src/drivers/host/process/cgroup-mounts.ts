/** The mounts of the cgroup hierarchies: version 2 alone, version 1, or both side by side. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type CgroupMounts = {
  /** Version 2 does everything here; otherwise each controller has its own hierarchy. */
  unified: boolean
  /** All hierarchies in which a sandbox has a group. */
  all: readonly string[]
  controllers: readonly string[]
  /** The mount of version 2, alone or beside version 1. */
  v2: string | undefined
  /** A file of a group, in the hierarchy of the controller. */
  file(controller: string, group: string, name: string): string
}

export function findCgroupMounts(mountinfo: string): CgroupMounts {
  const { v1, v2 } = parseMounts(mountinfo)
  const pure = !v1.has('memory') && !v1.has('cpu') ? v2 : undefined
  if (pure) {
    const controllers = readFileSync(join(pure, 'cgroup.controllers'), 'utf8').trim().split(' ')
    return {
      unified: true,
      all: [pure],
      controllers,
      v2: pure,
      file: (_controller, group, name) => join(pure, group, name),
    }
  }
  const mounts = new Set([...v1.values(), ...(v2 ? [v2] : [])])
  return {
    unified: false,
    all: [...mounts].filter((point) => point.startsWith('/sys/fs/cgroup')),
    controllers: [...v1.keys()],
    v2,
    file: (controller, group, name) => join(v1.get(controller) ?? v2 ?? '/sys/fs/cgroup', group, name),
  }
}

function parseMounts(mountinfo: string): { v1: Map<string, string>; v2: string | undefined } {
  const v1 = new Map<string, string>()
  let v2: string | undefined
  for (const line of mountinfo.split('\n')) {
    const [before, after] = line.split(' - ')
    const point = before?.split(' ')[4]
    const [type, , options] = after?.split(' ') ?? []
    if (!point) continue
    if (type === 'cgroup2') v2 ??= point
    if (type !== 'cgroup') continue
    for (const option of options?.split(',') ?? []) v1.set(option, v1.get(option) ?? point)
  }
  return { v1, v2 }
}
