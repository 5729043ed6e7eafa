/** A volume, its allowed names, and the paths at which a sandbox may mount it. */
import { posix } from 'node:path'
import { AppError } from '../../lib/app-error.ts'

/** `creating`: no client knows of it yet. `deleting`: nobody can use it any more. */
export type VolumeState = 'creating' | 'ready' | 'deleting'

export type Volume = {
  volumeID: string
  teamID: string
  name: string
  state: VolumeState
  /** Capacity in MiB. */
  sizeMB: number
  createdAt: number
}

/** A volume that a sandbox was created with, under its name at that time. */
export type VolumeMount = {
  volumeID: string
  name: string
  /** The path inside the sandbox. */
  path: string
}

/** A mount as a client requests it. */
export type WantedMount = Pick<VolumeMount, 'name' | 'path'>

const maxMounts = 16
const namePattern = /^[a-zA-Z0-9_-]{1,128}$/
/**
 * In bytes: file systems limit a name to 255 bytes, and the path of the root filesystem is prepended to the
 * mount path.
 */
const longestPath = 1024
const longestName = 255
/** Folders that the sandbox itself needs. */
const reservedFolders = ['/proc', '/sys', '/dev', '/.warren']

/** True if no disk can be mounted at the path: it is the root, or a part of the sandbox itself. */
export const isReserved = (path: string): boolean =>
  path === '/' || reservedFolders.some((folder) => isWithin(path, folder))

const invalid = (message: string) => new AppError('invalid_argument', message)

export function checkVolumeName(name: string): void {
  if (!namePattern.test(name)) {
    throw invalid("Invalid volume name: use 1 to 128 letters, digits, '-' and '_'")
  }
}

/** Returns the mounts with normalized paths. No mount lies within another, so their order does not matter. */
export function checkMounts(wanted: readonly WantedMount[]): WantedMount[] {
  if (wanted.length > maxMounts) throw invalid(`A sandbox can have at most ${maxMounts} volume mounts`)
  const mounts = wanted.map(({ name, path }) => ({ name, path: mountPath(path) }))
  for (const [at, { path }] of mounts.entries()) {
    const other = mounts.find((mount, index) => index !== at && isWithin(mount.path, path))
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
  if (isReserved(plain)) {
    throw invalid(`A volume cannot be mounted at ${shown}: choose a folder of its own, such as /mnt/data`)
  }
  return plain
}

export const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(`${folder}/`)
