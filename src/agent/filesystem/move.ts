import { promises as files, type Stats } from 'node:fs'
import { dirname, join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { systemErrorCode } from '../errors.ts'
import type { Metadata } from './metadata.ts'
import { temporaryName } from './temporary-name.ts'

/**
 * Renames. If the two are on different file systems, or if a folder of the image's own layer cannot be
 * renamed in place, copies with owners, modes, times and metadata and then removes the source.
 */
export async function movePath(source: string, destination: string, metadata: Metadata): Promise<void> {
  try {
    await files.rename(source, destination)
  } catch (error) {
    if (systemErrorCode(error) !== 'EXDEV') throw error
    await copyThenRemove(source, destination, metadata)
  }
}

async function copyThenRemove(source: string, destination: string, metadata: Metadata): Promise<void> {
  // Like rename: a file may replace a file; nothing else is replaced.
  const before = await files.lstat(destination).catch(() => undefined)
  if (before?.isDirectory())
    throw new AppError('invalid_argument', `the destination is a directory: ${destination}`)
  const partial = join(dirname(destination), temporaryName('moving'))
  try {
    await copyTree(source, partial, metadata)
    await files.rename(partial, destination)
  } catch (error) {
    await files.rm(partial, { recursive: true, force: true })
    throw error
  }
  await files.rm(source, { recursive: true, force: true })
}

async function copyTree(source: string, destination: string, metadata: Metadata): Promise<void> {
  const stats = await files.lstat(source)
  if (stats.isSymbolicLink()) await files.symlink(await files.readlink(source), destination)
  else if (stats.isDirectory()) {
    await files.mkdir(destination)
    for (const name of await files.readdir(source))
      await copyTree(join(source, name), join(destination, name), metadata)
  } else if (stats.isFile()) await files.copyFile(source, destination)
  else return
  if (!stats.isSymbolicLink()) keepMetadata(source, destination, metadata)
  await keepAttributes(stats, destination)
}

/** Like `mv`: if the other file system has no attributes, the file is moved without. */
function keepMetadata(source: string, destination: string, metadata: Metadata): void {
  try {
    metadata.replace(destination, metadata.read(source) ?? {}, source)
  } catch {}
}

async function keepAttributes(stats: Stats, path: string): Promise<void> {
  await files.lchown(path, stats.uid, stats.gid)
  if (!stats.isSymbolicLink()) await files.chmod(path, stats.mode & 0o7777)
  await files.lutimes(path, stats.atime, stats.mtime)
}
