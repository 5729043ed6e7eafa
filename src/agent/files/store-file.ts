/**
 * Writes a file beside its destination and then renames it, so that a reader sees the old or the new one, and
 * a full disk leaves the old one. Owner, mode, links and other attributes stay as a plain overwrite would
 * leave them.
 */
import { constants, createReadStream, promises as files, type Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { AppError } from '../../lib/app-error.ts'
import { noteSpent } from '../../lib/node-internals/spent-buffers.ts'
import type { Account } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'
import { makeFolders } from '../filesystem/make-folders.ts'
import type { FileMetadata, Metadata } from '../filesystem/metadata.ts'
import { temporaryName } from '../filesystem/temporary-name.ts'

type NewFile = {
  path: string
  account: Account
  chunks: AsyncIterable<Buffer>
  /** Replaces all metadata of the file. */
  metadata: FileMetadata
}

const newFileMode = 0o644
const maxLinks = 40
const copyAtOnce = 256 * 1024
/** Writing each piece from the wire separately would cost more than the write itself. */
const writeAtOnce = 512 * 1024
const maxPieces = 16

export async function storeFile(file: NewFile, metadataStore: Metadata): Promise<void> {
  const { path, account } = file
  makeFolders(dirname(path), account)
  const { target, stats } = await followLinks(path)
  if (stats && !stats.isFile()) {
    const kind = stats.isDirectory() ? 'a directory' : 'not a regular file'
    throw new AppError('invalid_argument', `path '${path}' is ${kind}`)
  }
  // Held open, so that everything happens in this folder, whatever replaces its name meanwhile.
  const folder = await files.open(dirname(target), constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    const folderPath = join('/proc/self/fd', String(folder.fd))
    await storeIn(folderPath, basename(target), stats, file, metadataStore)
  } finally {
    await folder.close()
  }
}

async function storeIn(
  folder: string,
  name: string,
  stats: Stats | undefined,
  { account, chunks, metadata }: NewFile,
  metadataStore: Metadata,
): Promise<void> {
  const target = join(folder, name)
  const { beside, file } = await createBeside(folder, stats ? 'over' : 'new')
  try {
    try {
      await writeChunks(file, chunks)
      await file.chown(stats?.uid ?? account.uid, stats?.gid ?? account.gid)
      await file.chmod(stats ? stats.mode & 0o7777 : newFileMode)
    } finally {
      await file.close()
    }
    note(metadataStore, beside, metadata, stats && target)
    const isOldFile = await replaceTarget(beside, target, stats)
    if (isOldFile) note(metadataStore, target, metadata, target)
  } catch (error) {
    await files.unlink(beside).catch(() => {})
    throw error
  }
}

/** An upload without metadata does not fail on a file system without attributes. */
function note(
  metadataStore: Metadata,
  path: string,
  metadata: FileMetadata,
  replaced: string | undefined,
): void {
  const isAsked = Object.keys(metadata).length > 0
  if (!isAsked && replaced === undefined) return
  try {
    metadataStore.replace(path, metadata, replaced)
  } catch (error) {
    if (isAsked) throw error
  }
}

/** The name need not be secret, only unused: an existing file is never opened. */
async function createBeside(
  folder: string,
  kind: 'new' | 'over',
): Promise<{ beside: string; file: FileHandle }> {
  for (;;) {
    const beside = join(folder, temporaryName(kind))
    try {
      return { beside, file: await files.open(beside, 'wx', 0o600) }
    } catch (error) {
      if (systemErrorCode(error) !== 'EEXIST') throw error
    }
  }
}

/**
 * A file with several names must stay one file, and a mounted one cannot be replaced: both are overwritten
 * with the bytes. True if the file at the target is the one that was there before.
 */
async function replaceTarget(beside: string, target: string, stats: Stats | undefined): Promise<boolean> {
  if (stats === undefined || stats.nlink === 1) {
    try {
      await files.rename(beside, target)
      return false
    } catch (error) {
      if (systemErrorCode(error) !== 'EBUSY') throw error
    }
  }
  await requireSpace(beside, target)
  await overwrite(target, createReadStream(beside, { highWaterMark: copyAtOnce }))
  await files.unlink(beside)
  return true
}

/** Opens only a regular file: a link or a pipe may have taken its name meanwhile. */
async function overwrite(target: string, bytes: Readable): Promise<void> {
  const { O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await files.open(target, O_WRONLY | O_NOFOLLOW | O_NONBLOCK).catch((error) => {
    throw replacedCodes.has(systemErrorCode(error) ?? '') ? replaced() : error
  })
  try {
    if (!(await file.stat()).isFile()) throw replaced()
    await file.truncate()
    await file.writeFile(bytes)
  } finally {
    bytes.destroy()
    await file.close()
  }
}

/** A link, a pipe without a reader, or nothing. */
const replacedCodes = new Set(['ELOOP', 'ENXIO', 'ENOENT'])
const replaced = () =>
  new AppError('conflict', 'something else took the name of the file while it was written: write it again')

/** The first write destroys the old bytes, so it must be known before that the rest will fit. */
async function requireSpace(beside: string, target: string): Promise<void> {
  const [fresh, old, disk] = await Promise.all([files.stat(beside), files.stat(target), files.statfs(target)])
  if (fresh.size - old.blocks * 512 > disk.bavail * disk.bsize) {
    throw new AppError('no_space', 'not enough disk space available')
  }
}

/** Gathers the next pieces while some are being written. */
async function writeChunks(file: FileHandle, chunks: AsyncIterable<Buffer>): Promise<void> {
  let pieces: Buffer[] = []
  let gathered = 0
  let writing = Promise.resolve()
  const flush = async () => {
    await writing
    writing = writeAll(file, pieces)
    // The next flush awaits it and fails with it; until then the failure must not count as unhandled.
    writing.catch(() => {})
    noteSpent(gathered)
    pieces = []
    gathered = 0
  }
  try {
    for await (const chunk of chunks) {
      pieces.push(chunk)
      gathered += chunk.length
      if (gathered >= writeAtOnce || pieces.length === maxPieces) await flush()
    }
    await flush()
  } finally {
    await writing
  }
}

async function writeAll(file: FileHandle, pieces: Buffer[]): Promise<void> {
  let left = pieces
  while (left.length > 0) {
    const { bytesWritten } = await file.writev(left)
    left = withoutFirst(bytesWritten, left)
  }
}

function withoutFirst(bytes: number, pieces: Buffer[]): Buffer[] {
  let skipped = 0
  for (const [index, piece] of pieces.entries()) {
    if (skipped + piece.length > bytes) return [piece.subarray(bytes - skipped), ...pieces.slice(index + 1)]
    skipped += piece.length
  }
  return []
}

/** The target of a plain open: the end of a chain of links, which need not exist yet. */
async function followLinks(path: string): Promise<{ target: string; stats: Stats | undefined }> {
  let target = path
  for (let links = 0; links < maxLinks; links++) {
    const stats = await files.lstat(target).catch((error) => {
      if (systemErrorCode(error) === 'ENOENT') return undefined
      throw error
    })
    if (!stats?.isSymbolicLink()) return { target, stats }
    target = resolve(dirname(target), await files.readlink(target))
  }
  throw new AppError('invalid_argument', `symbolic links lead in a circle: ${path}`)
}
