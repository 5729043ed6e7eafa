/**
 * Writes a file beside its destination and then renames it, so that a reader sees the old or the new and a
 * full disk leaves the old. Owner, mode and links stay as a plain overwrite would leave them.
 */
import { constants, promises as files, type Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import type { Account } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'
import { makeFolders } from '../filesystem/make-folders.ts'

/** Where the name of a file under way begins; such a file belongs to nobody else. */
export const uploadPrefix = '.warren-upload-'

const newFileMode = 0o644
const mostLinks = 40

export async function storeFile(
  path: string,
  account: Account,
  chunks: AsyncIterable<Buffer>,
): Promise<void> {
  makeFolders(dirname(path), account)
  const { target, stats } = await followLinks(path)
  if (stats?.isDirectory()) throw new AppError('invalid_argument', `path '${path}' is a directory`)
  if (stats && !stats.isFile()) return writeInPlace(target, chunks)
  const { beside, file } = await createBeside(target)
  try {
    try {
      for await (const chunk of chunks) await writeAll(file, chunk)
      await file.chown(stats?.uid ?? account.uid, stats?.gid ?? account.gid)
      await file.chmod(stats ? stats.mode & 0o7777 : newFileMode)
    } finally {
      await file.close()
    }
    await putInPlace(beside, target, stats)
  } catch (error) {
    await files.unlink(beside).catch(() => {})
    throw error
  }
}

let uploads = 0

/** The name need not be secret, only unused: an existing file is never opened. */
async function createBeside(target: string): Promise<{ beside: string; file: FileHandle }> {
  for (;;) {
    const beside = `${dirname(target)}/${uploadPrefix}${uploads++}`
    try {
      return { beside, file: await files.open(beside, 'wx', 0o600) }
    } catch (error) {
      if (systemErrorCode(error) !== 'EEXIST') throw error
    }
  }
}

/** A file with several names must stay one file, and a mounted one cannot be replaced: both get the bytes. */
async function putInPlace(beside: string, target: string, stats: Stats | undefined): Promise<void> {
  if (stats === undefined || stats.nlink === 1) {
    try {
      return await files.rename(beside, target)
    } catch (error) {
      if (systemErrorCode(error) !== 'EBUSY') throw error
    }
  }
  await files.copyFile(beside, target)
  await files.unlink(beside)
}

/** Devices and the like take the bytes as they come. */
async function writeInPlace(target: string, chunks: AsyncIterable<Buffer>): Promise<void> {
  const file = await files.open(target, constants.O_WRONLY | constants.O_NONBLOCK).catch((error) => {
    if (systemErrorCode(error) !== 'ENXIO') throw error
    throw new AppError('invalid_argument', `path '${target}' is a pipe that nobody reads, or a socket`)
  })
  try {
    for await (const chunk of chunks) await writeAll(file, chunk)
  } finally {
    await file.close()
  }
}

async function writeAll(file: FileHandle, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; ) {
    const { bytesWritten } = await file.write(chunk, at, chunk.length - at)
    at += bytesWritten
  }
}

/** The place a plain open would write to: the end of a chain of links, which need not exist yet. */
async function followLinks(path: string): Promise<{ target: string; stats: Stats | undefined }> {
  let target = path
  for (let links = 0; links < mostLinks; links++) {
    const stats = await files.lstat(target).catch((error) => {
      if (systemErrorCode(error) === 'ENOENT') return undefined
      throw error
    })
    if (!stats?.isSymbolicLink()) return { target, stats }
    target = resolve(dirname(target), await files.readlink(target))
  }
  throw new AppError('invalid_argument', `symbolic links lead in a circle: ${path}`)
}
