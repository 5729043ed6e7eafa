import type { Stats } from 'node:fs'
import {
  chmod,
  copyFile,
  lchown,
  lstat,
  lutimes,
  mkdir,
  readdir,
  readlink,
  rename,
  rm,
  symlink,
} from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'
import { systemErrorCode } from '../errors.ts'

/**
 * Renames; where the two lie on different file systems, or a folder of the image's own layer cannot be
 * renamed in place, copies with owners, modes and times and then removes the source.
 */
export async function movePath(source: string, destination: string): Promise<void> {
  try {
    await rename(source, destination)
  } catch (error) {
    if (systemErrorCode(error) !== 'EXDEV') throw error
    await copyThenRemove(source, destination)
  }
}

export async function copyThenRemove(source: string, destination: string): Promise<void> {
  // As rename does it: a file may take the place of a file, nothing else is replaced.
  const before = await lstat(destination).catch(() => undefined)
  if (before?.isDirectory())
    throw new AppError('invalid_argument', `the destination is a directory: ${destination}`)
  const partial = `${destination}.warren-${randomHex(4)}`
  try {
    await copyTree(source, partial)
    await rename(partial, destination)
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
  await rm(source, { recursive: true, force: true })
}

async function copyTree(source: string, destination: string): Promise<void> {
  const stats = await lstat(source)
  if (stats.isSymbolicLink()) await symlink(await readlink(source), destination)
  else if (stats.isDirectory()) {
    await mkdir(destination)
    for (const name of await readdir(source)) await copyTree(join(source, name), join(destination, name))
  } else if (stats.isFile()) await copyFile(source, destination)
  else return
  await keepAttributes(stats, destination)
}

async function keepAttributes(stats: Stats, path: string): Promise<void> {
  await lchown(path, stats.uid, stats.gid)
  if (!stats.isSymbolicLink()) await chmod(path, stats.mode & 0o7777)
  await lutimes(path, stats.atime, stats.mtime)
}
