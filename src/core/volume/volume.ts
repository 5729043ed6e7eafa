/** What a volume is, what it may be called, and where a sandbox may see it. */
import { posix } from 'node:path'
import { AppError } from '../../lib/app-error.ts'

/** `creating`: nobody was told of it yet. `deleting`: nobody can use it any more. */
export type VolumeState = 'creating' | 'ready' | 'deleting'

export type Volume = {
  volumeID: string
  teamID: string
  name: string
  state: VolumeState
  /** How much it can hold, in MiB. */
  sizeMB: number
  createdAt: number
}

/** A volume that a sandbox was created with, by its name at that time. */
export type VolumeMount = {
  volumeID: string
  name: string
  /** Where the sandbox sees it. */
  path: string
}

/** A mount as a client asks for it. */
export type WantedMount = Pick<VolumeMount, 'name' | 'path'>

export const mostMounts = 16
const namePattern = /^[a-zA-Z0-9_-]{1,128}$/
/** In bytes: a file system takes no longer name, and the path of a root comes in front of the path. */
const longestPath = 1024
const longestName = 255
/** The machinery of a sandbox lies there. */
const takenFolders = ['/proc', '/sys', '/dev', '/.warren']

/** No disk can be mounted there: it is the root, or a part of the sandbox itself. */
export const isTaken = (path: string): boolean =>
  path === '/' || takenFolders.some((folder) => isWithin(path, folder))

const invalid = (message: string) => new AppError('invalid_argument', message)

export function checkVolumeName(name: string): void {
  if (!namePattern.test(name)) {
    throw invalid("Invalid volume name: use 1 to 128 letters, digits, '-' and '_'")
  }
}

/** The mounts with their paths in one form. No mount lies within another, so their order does not matter. */
export function checkMounts(wanted: readonly WantedMount[]): WantedMount[] {
  if (wanted.length > mostMounts) throw invalid(`A sandbox can have at most ${mostMounts} volume mounts`)
  const mounts = wanted.map(({ name, path }) => ({ name, path: mountPath(path) }))
  for (const [at, { path }] of mounts.entries()) {
    const other = mounts.find((mount, place) => place !== at && isWithin(mount.path, path))
    if (other) throw invalid(`The volume mounts at ${path} and ${other.path} lie within each other`)
  }
  return mounts
}

function mountPath(path: string): string {
  const shown = JSON.stringify(path)
  if (Buffer.byteLength(path) > longestPath) {
    throw invalid(`Invalid path of a volume mount: it may have at most ${longestPath} bytes`)
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no path of a mount has them
  if (!path.startsWith('/') || !path.isWellFormed() || /[\u0000-\u001f\u007f]/.test(path)) {
    throw invalid(`Invalid path of a volume mount ${shown}: use an absolute path without control characters`)
  }
  if (path.split('/').includes('..')) throw invalid(`Invalid path of a volume mount ${shown}: leave out ..`)
  const plain = posix.normalize(path).replace(/(?<=.)\/$/, '')
  if (plain.split('/').some((name) => Buffer.byteLength(name) > longestName)) {
    throw invalid(
      `Invalid path of a volume mount ${shown}: no name in it may have more than ${longestName} bytes`,
    )
  }
  if (isTaken(plain)) {
    throw invalid(`A volume cannot be mounted at ${shown}: choose a folder of its own, such as /mnt/data`)
  }
  return plain
}

export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(`${folder}/`)
