/**
 * Finds the places in a root at which the disks of volumes would really be mounted. Runtimes follow the links
 * of an image, and report a bad place in no way that a client understands. Nothing runs in the root yet, so
 * the result stays valid.
 */
import { lstatSync, readlinkSync } from 'node:fs'
import { posix } from 'node:path'
import { isReserved, isWithin } from '../../../core/volume/volume.ts'

export type MountPointsTask = { namespace: string; root: string; paths: readonly string[] }

export const badMountPoint = 'WARREN_BAD_MOUNT_POINT'

const maxLinks = 40

/** Throws an error with the code `badMountPoint`, whose message is for the client. */
export function checkMountPoints({ root, paths }: Pick<MountPointsTask, 'root' | 'paths'>): void {
  const resolved = paths.map((path) => resolveIn(root, path))
  for (const [at, target] of resolved.entries()) {
    const path = paths[at]!
    if (isReserved(target))
      throw rejection(path, `it leads to ${JSON.stringify(target)}, which is a part of the sandbox itself`)
    const other = resolved.findIndex((one, index) => index !== at && isWithin(target, one))
    if (other >= 0) throw rejection(path, `it leads into the mount at ${JSON.stringify(paths[other])}`)
  }
}

/** Resolves the path as a process with this root would. Missing folders would be created. */
function resolveIn(root: string, path: string): string {
  const names = namesOf(path)
  let walked: string[] = []
  for (let links = 0; names.length > 0; ) {
    const name = names.shift()!
    if (name === '..') {
      walked = walked.slice(0, -1)
      continue
    }
    const next = [...walked, name]
    const found = look(root, next, path)
    if (found?.isSymbolicLink()) {
      if (++links > maxLinks) throw rejection(path, 'links lead in a circle there')
      const target = readlinkSync(join(root, next))
      if (target.startsWith('/')) walked = []
      names.unshift(...namesOf(target))
    } else if (found && !found.isDirectory()) {
      throw rejection(path, `${JSON.stringify(join('/', next))} is a file`)
    } else walked = next
  }
  return join('/', walked)
}

function look(root: string, names: string[], path: string) {
  try {
    return lstatSync(join(root, names), { throwIfNoEntry: false })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENAMETOOLONG') throw rejection(path, 'it is too long')
    throw error
  }
}

const namesOf = (path: string): string[] => path.split('/').filter((name) => name !== '' && name !== '.')
const join = (root: string, names: string[]): string => posix.join(root, ...names)

function rejection(path: string, why: string): Error {
  const message = `A volume cannot be mounted at ${JSON.stringify(path)}: ${why}. Choose a folder of its own, such as /mnt/data`
  return Object.assign(new Error(message), { code: badMountPoint })
}
