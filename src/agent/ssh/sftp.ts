/** The files of the process's own user by SFTP, version 3: the kernel decides what that user may do. */
import { constants, type Stats } from 'node:fs'
import * as fs from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Attributes, FileEntry, SFTPWrapper } from 'ssh2'
import { errorText } from '../../lib/app-error.ts'
import { Accounts } from '../accounts.ts'
import { systemErrorCode } from '../errors.ts'
import { longName } from './long-name.ts'

const status = { ok: 0, endOfFile: 1, noSuchFile: 2, permissionDenied: 3, failure: 4 }
const flag = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 }
const maxHandles = 256
/** Clients wait for answers long before this. */
const maxPending = 4096
const maxReadBytes = 256 * 1024
const entriesAtOnce = 100
const defaultFileMode = 0o666
const defaultFolderMode = 0o777
const permissionBits = 0o7777

type OpenFile = { file: fs.FileHandle; appends: boolean }
type OpenFolder = { path: string; names: string[] }

class SftpFailure extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Answers the requests of one SFTP session until it closes, one after the other: scp takes answers that come in another order for
 * the end of what was written.
 */
export function serveSftp(sftp: SFTPWrapper): void {
  const handles = new Handles()
  const accounts = new Accounts()
  let pending = 0
  let last: Promise<unknown> = Promise.resolve()
  /** Every request gets exactly one answer: that of `work`, or the status of its failure. */
  const answer = (request: number, work: () => Promise<unknown>): void => {
    if (++pending > maxPending) return void sftp.end()
    last = last
      .then(work)
      .catch((error) => sftp.status(request, statusOf(error), errorText(error)))
      .finally(() => pending--)
  }
  /** For requests whose answer is that they are done. */
  const done = (request: number, work: () => Promise<unknown>): void =>
    answer(request, async () => {
      await work()
      sftp.status(request, status.ok)
    })
  const stats = (request: number, work: () => Promise<Stats>): void =>
    answer(request, async () => sftp.attrs(request, attributesOf(await work())))
  const name = (request: number, work: () => Promise<string>): void =>
    answer(request, async () => {
      const filename = await work()
      sftp.name(request, [{ filename, longname: filename, attrs: {} as Attributes }])
    })

  sftp.on('OPEN', (request, path, flags, attrs) =>
    answer(request, async () => sftp.handle(request, handles.add(await openFile(path, flags, attrs)))),
  )
  sftp.on('READ', (request, handle, offset, length) =>
    answer(request, async () => {
      const bytes = await readFrom(handles.file(handle), offset, length)
      if (bytes.length > 0) sftp.data(request, bytes)
      else sftp.status(request, status.endOfFile)
    }),
  )
  sftp.on('WRITE', (request, handle, offset, bytes) =>
    done(request, () => writeTo(handles.file(handle), offset, bytes)),
  )
  sftp.on('CLOSE', (request, handle) => done(request, () => handles.close(handle)))
  sftp.on('FSTAT', (request, handle) => stats(request, () => handles.file(handle).file.stat()))
  sftp.on('FSETSTAT', (request, handle, attrs) =>
    done(request, () => {
      const { file } = handles.file(handle)
      return setAttributes(attrs, {
        truncate: (size) => file.truncate(size),
        chmod: (mode) => file.chmod(mode),
        utimes: (atime, mtime) => file.utimes(atime, mtime),
        chown: (uid, gid) => file.chown(uid, gid),
      })
    }),
  )
  sftp.on('SETSTAT', (request, path, attrs) =>
    done(request, () =>
      setAttributes(attrs, {
        truncate: (size) => fs.truncate(path, size),
        chmod: (mode) => fs.chmod(path, mode),
        utimes: (atime, mtime) => fs.utimes(path, atime, mtime),
        chown: (uid, gid) => fs.chown(path, uid, gid),
      }),
    ),
  )
  sftp.on('OPENDIR', (request, path) =>
    answer(request, async () => {
      const names = ['.', '..', ...(await fs.readdir(path))]
      sftp.handle(request, handles.add({ path, names }))
    }),
  )
  sftp.on('READDIR', (request, handle) =>
    answer(request, async () => {
      const entries = await readEntries(handles.folder(handle), accounts)
      if (entries.length > 0) sftp.name(request, entries)
      else sftp.status(request, status.endOfFile)
    }),
  )
  sftp.on('STAT', (request, path) => stats(request, () => fs.stat(path)))
  sftp.on('LSTAT', (request, path) => stats(request, () => fs.lstat(path)))
  sftp.on('REMOVE', (request, path) => done(request, () => fs.unlink(path)))
  sftp.on('RMDIR', (request, path) => done(request, () => fs.rmdir(path)))
  sftp.on('MKDIR', (request, path, { mode = defaultFolderMode }) =>
    done(request, () => fs.mkdir(path, { mode: mode & permissionBits })),
  )
  sftp.on('RENAME', (request, from, to) => done(request, () => rename(from, to)))
  sftp.on('READLINK', (request, path) => name(request, () => fs.readlink(path)))
  sftp.on('REALPATH', (request, path) => name(request, () => realPath(path)))
  sftp.on('SYMLINK', (request, path, target) => done(request, () => fs.symlink(target, path)))
  sftp.on('end', () => {
    handles.closeAll()
    endWell(sftp)
  })
  sftp.on('close', () => handles.closeAll())
  sftp.on('error', () => handles.closeAll())
}

/** What the types lack: scp fails if the subsystem has no exit code. */
type SftpChannel = {
  outgoing: { id: number }
  _protocol: { exitStatus(channel: number, code: number): void }
}

function endWell(sftp: SFTPWrapper): void {
  const { outgoing, _protocol } = sftp as unknown as SftpChannel
  _protocol.exitStatus(outgoing.id, 0)
  sftp.end()
}

class Handles {
  #open = new Map<number, OpenFile | OpenFolder>()
  #next = 0

  add(opened: OpenFile | OpenFolder): Buffer {
    if (this.#open.size >= maxHandles) {
      if ('file' in opened) opened.file.close().catch(() => {})
      throw new SftpFailure(status.failure, `too many open files (limit: ${maxHandles})`)
    }
    this.#next = (this.#next + 1) % 2 ** 31
    this.#open.set(this.#next, opened)
    const handle = Buffer.alloc(4)
    handle.writeUInt32BE(this.#next)
    return handle
  }

  file(handle: Buffer): OpenFile {
    const found = this.#find(handle)
    if (found && 'file' in found) return found
    throw new SftpFailure(status.failure, 'this is no open file')
  }

  folder(handle: Buffer): OpenFolder {
    const found = this.#find(handle)
    if (found && 'names' in found) return found
    throw new SftpFailure(status.failure, 'this is no open folder')
  }

  async close(handle: Buffer): Promise<void> {
    const found = this.#find(handle)
    if (!found) throw new SftpFailure(status.failure, 'this handle is not open')
    this.#open.delete(handle.readUInt32BE())
    if ('file' in found) await found.file.close()
  }

  closeAll(): void {
    for (const opened of this.#open.values()) if ('file' in opened) opened.file.close().catch(() => {})
    this.#open.clear()
  }

  #find(handle: Buffer): OpenFile | OpenFolder | undefined {
    return handle.length === 4 ? this.#open.get(handle.readUInt32BE()) : undefined
  }
}

async function openFile(path: string, flags: number, attrs: Attributes): Promise<OpenFile> {
  const has = (bit: number) => (flags & bit) !== 0
  const access = has(flag.write)
    ? has(flag.read)
      ? constants.O_RDWR
      : constants.O_WRONLY
    : constants.O_RDONLY
  const more =
    (has(flag.append) ? constants.O_APPEND : 0) |
    (has(flag.create) ? constants.O_CREAT : 0) |
    (has(flag.truncate) ? constants.O_TRUNC : 0) |
    (has(flag.exclusive) ? constants.O_EXCL : 0)
  const mode = attrs.mode === undefined ? defaultFileMode : attrs.mode & permissionBits
  return { file: await fs.open(path, access | more, mode), appends: has(flag.append) }
}

async function readFrom({ file }: OpenFile, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(Math.min(length, maxReadBytes))
  const { bytesRead } = await file.read(bytes, 0, bytes.length, offset)
  return bytes.subarray(0, bytesRead)
}

async function writeTo({ file, appends }: OpenFile, offset: number, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at, appends ? null : offset + at)
    at += bytesWritten
  }
}

type Setters = {
  truncate(size: number): Promise<void>
  chmod(mode: number): Promise<void>
  utimes(atime: number, mtime: number): Promise<void>
  chown(uid: number, gid: number): Promise<void>
}

/** Sets what is given. The owner comes last: whoever gives a file away may not change it any more. */
async function setAttributes(attrs: Partial<Attributes>, set: Setters): Promise<void> {
  const { size, mode, atime, mtime, uid, gid } = attrs
  if (size !== undefined) await set.truncate(size)
  if (mode !== undefined) await set.chmod(mode & permissionBits)
  if (atime !== undefined && mtime !== undefined) await set.utimes(atime, mtime)
  if (uid !== undefined && gid !== undefined) await set.chown(uid, gid)
}

async function readEntries(folder: OpenFolder, accounts: Accounts): Promise<FileEntry[]> {
  const entries = await Promise.all(
    folder.names.splice(0, entriesAtOnce).map(async (filename) => {
      // It may have been removed meanwhile.
      const stats = await fs.lstat(join(folder.path, filename)).catch(() => undefined)
      return stats && { filename, longname: longName(filename, stats, accounts), attrs: attributesOf(stats) }
    }),
  )
  const found = entries.filter((entry) => entry !== undefined)
  return found.length === 0 && folder.names.length > 0 ? readEntries(folder, accounts) : found
}

const seconds = (ms: number): number => Math.floor(ms / 1000)

function attributesOf({ mode, uid, gid, size, atimeMs, mtimeMs }: Stats): Attributes {
  return { mode, uid, gid, size, atime: seconds(atimeMs), mtime: seconds(mtimeMs) }
}

/** Version 3 of the protocol replaces nothing by a rename. */
async function rename(from: string, to: string): Promise<void> {
  const isTaken = await fs.lstat(to).then(
    () => true,
    () => false,
  )
  if (isTaken) throw new SftpFailure(status.failure, `${to} exists`)
  await fs.rename(from, to)
}

/** Clients ask for the path of a file before they make it. */
async function realPath(path: string): Promise<string> {
  return fs.realpath(path).catch((error) => {
    if (systemErrorCode(error) === 'ENOENT') return resolve(path)
    throw error
  })
}

function statusOf(error: unknown): number {
  if (error instanceof SftpFailure) return error.code
  const code = systemErrorCode(error)
  if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return status.noSuchFile
  return code === 'EACCES' || code === 'EPERM' ? status.permissionDenied : status.failure
}
