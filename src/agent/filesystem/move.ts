import { promises as files, type Stats } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { systemErrorCode } from '../errors.ts'

let moves = 0

/**
 * Renames; where the two lie on different file systems, or a folder of the image's own layer cannot be
 * renamed in place, copies with owners, modes and times and then removes the source.
 */
export async function movePath(source: string, destination: string): Promise<void> {
  try {
    await files.rename(source, destination)
  } catch (error) {
    if (systemErrorCode(error) !== 'EXDEV') throw error
    await copyThenRemove(source, destination)
  }
}

export async function copyThenRemove(source: string, destination: string): Promise<void> {
  // As rename does it: a file may take the place of a file, nothing else is replaced.
  const before = await files.lstat(destination).catch(() => undefined)
  if (before?.isDirectory())
    throw new AppError('invalid_argument', `the destination is a directory: ${destination}`)
  const partial = `${destination}.warren-moving-${moves++}`
  try {
    await copyTree(source, partial)
    await files.rename(partial, destination)
  } catch (error) {
    await files.rm(partial, { recursive: true, force: true })
    throw error
  }
  await files.rm(source, { recursive: true, force: true })
}

async function copyTree(source: string, destination: string): Promise<void> {
  const stats = await files.lstat(source)
  if (stats.isSymbolicLink()) await files.symlink(await files.readlink(source), destination)
  else if (stats.isDirectory()) {
    await files.mkdir(destination)
    for (const name of await files.readdir(source))
      await copyTree(join(source, name), join(destination, name))
  } else if (stats.isFile()) await files.copyFile(source, destination)
  else return
  await keepAttributes(stats, destination)
}

async function keepAttributes(stats: Stats, path: string): Promise<void> {
  await files.lchown(path, stats.uid, stats.gid)
  if (!stats.isSymbolicLink()) await files.chmod(path, stats.mode & 0o7777)
  await files.lutimes(path, stats.atime, stats.mtime)
}
