/** GET and HEAD /files: sends the bytes of one file, unchanged, from disk to socket. */
import { constants, promises as files, type Stats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { basename } from 'node:path'
import { promises as streams } from 'node:stream'
import { AppError } from '../../lib/app-error.ts'
import { parseByteRange } from '../../lib/byte-range.ts'
import { requireTokenOrSignature } from '../access.ts'
import { fromSystemError, sendJSON, systemErrorCode } from '../errors.ts'
import { logFile } from '../log/file-log.ts'
import { resolvePath } from '../paths.ts'
import { contentType } from './content-type.ts'
import { accountFor, type FilesContext } from './files-request.ts'

const chunkSize = 256 * 1024

export async function readFileRoute(
  { identity, clock, log }: FilesContext,
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
): Promise<void> {
  requireTokenOrSignature(identity, clock, request, query, 'read')
  const account = accountFor(identity, query.get('username') ?? '')
  const path = resolvePath(query.get('path') ?? '', account, identity.defaultWorkdir)
  const file = await openFile(path)
  logFile(log, 'file_read', path, { user: account.name })
  try {
    await send(file, await file.stat(), path, request, response)
  } finally {
    await file.close().catch(() => {})
  }
}

async function openFile(path: string): Promise<FileHandle> {
  // Non-blocking, or a named pipe without a writer would hold a thread for ever.
  const file = await files.open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error) => {
    if (systemErrorCode(error) === 'ENOENT') throw new AppError('not_found', `path '${path}' does not exist`)
    throw fromSystemError(error, path)
  })
  const stats = await file.stat()
  if (stats.isFile()) return file
  await file.close()
  const kind = stats.isDirectory() ? 'a directory' : 'not a regular file'
  throw new AppError('invalid_argument', `path '${path}' is ${kind}`)
}

async function send(
  file: FileHandle,
  stats: Stats,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  response.setHeader('content-disposition', `inline; ${filenameParameter(basename(path))}`)
  response.setHeader('vary', 'Accept-Encoding')
  response.setHeader('last-modified', stats.mtime.toUTCString())
  if (isUnmodified(request, stats)) return void response.writeHead(304).end()
  response.setHeader('content-type', contentType(path))
  response.setHeader('accept-ranges', 'bytes')
  const range = wantedRange(request, stats)
  if (range === 'unsatisfiable') {
    response.setHeader('content-range', `bytes */${stats.size}`)
    return void response.writeHead(416, { 'content-length': 0 }).end()
  }
  if (range) {
    response.setHeader('content-range', `bytes ${range.start}-${range.end}/${stats.size}`)
    return sendBytes(file, range.start, range.end - range.start + 1, 206, response)
  }
  const conditional = request.headers['if-modified-since'] !== undefined
  const gzip = wantsGzip(request.headers['accept-encoding'] ?? '')
  if (gzip === undefined) {
    return sendJSON(response, 406, { code: 406, message: 'no acceptable encoding: accept gzip or identity' })
  }
  if (gzip && !conditional) {
    response.writeHead(200, { 'content-encoding': 'gzip' })
    if (request.method === 'HEAD') return void response.end()
    const { createGzip } = process.getBuiltinModule('node:zlib')
    return streams.pipeline(chunks(file, 0, Number.POSITIVE_INFINITY), createGzip({ level: 1 }), response)
  }
  if (stats.size > 0) return sendBytes(file, 0, stats.size, 200, response)
  await sendUntilEnd(file, response)
}

async function sendBytes(
  file: FileHandle,
  start: number,
  length: number,
  status: number,
  response: ServerResponse,
): Promise<void> {
  response.writeHead(status, { 'content-length': length })
  if (response.req.method === 'HEAD') return void response.end()
  // Two buffers take turns: one is filled while the other is sent.
  let filling = Buffer.allocUnsafe(Math.min(chunkSize, length))
  let leaving = Buffer.allocUnsafe(Math.min(chunkSize, length))
  let written = Promise.resolve()
  for (let sent = 0; sent < length; ) {
    const { bytesRead } = await file.read(filling, 0, Math.min(chunkSize, length - sent), start + sent)
    await written
    // The file became shorter meanwhile: the answer cannot have its declared length, so it must not look
    // complete.
    if (bytesRead === 0) throw new AppError('internal', 'the file changed while it was read')
    sent += bytesRead
    written = write(response, filling.subarray(0, bytesRead))
    // The next turn awaits it and fails with it; until then the failure must not count as unhandled.
    written.catch(() => {})
    ;[filling, leaving] = [leaving, filling]
  }
  await written
  response.end()
}

/** Resolves once the bytes are sent and their memory can be reused. */
function write(response: ServerResponse, bytes: Buffer): Promise<void> {
  const { socket } = response.req
  return new Promise((resolve, reject) => {
    // Node does not call back for data that can no longer be written.
    const leave = () => reject(new AppError('unavailable', 'the client left before the end of the file'))
    if (socket.destroyed) return leave()
    socket.once('close', leave)
    response.write(bytes, () => {
      socket.off('close', leave)
      resolve()
    })
  })
}

/** A file of /proc reports size 0 but has content; an empty one gets its `Content-Length: 0`. */
async function sendUntilEnd(file: FileHandle, response: ServerResponse): Promise<void> {
  const reader = chunks(file, null, Number.POSITIVE_INFINITY)
  const first = await reader.next()
  if (first.done) return void response.writeHead(200, { 'content-length': 0 }).end()
  response.writeHead(200)
  if (response.req.method === 'HEAD') return void response.end()
  response.write(first.value)
  await streams.pipeline(reader, response)
}

/** `position` null reads from the present position of the file. */
async function* chunks(file: FileHandle, position: number | null, length: number): AsyncGenerator<Buffer> {
  let left = length
  let at = position
  while (left > 0) {
    const buffer = Buffer.allocUnsafe(Math.min(chunkSize, left))
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at)
    if (bytesRead === 0) return
    left -= bytesRead
    if (at !== null) at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/** A conditional range counts only while the file is unchanged. */
function wantedRange({ headers }: IncomingMessage, stats: Stats) {
  if (headers.range === undefined) return undefined
  const same = headers['if-range'] === undefined || headers['if-range'] === stats.mtime.toUTCString()
  return same ? parseByteRange(headers.range, stats.size) : undefined
}

function isUnmodified(request: IncomingMessage, stats: Stats): boolean {
  const since = Date.parse(request.headers['if-modified-since'] ?? '')
  return since >= Math.floor(stats.mtimeMs / 1000) * 1000
}

/**
 * True only for clients that accept nothing else or prefer gzip: clients that merely could decode it are
 * served faster without. Undefined if neither gzip nor the plain bytes are accepted.
 */
function wantsGzip(accepted: string): boolean | undefined {
  const weights = new Map(accepted.split(',').map(weightOf))
  const others = weights.get('*')
  const gzip = weights.get('gzip') ?? others ?? 0
  const plain = weights.get('identity') ?? (others === 0 ? 0 : undefined)
  if (plain === 0) return gzip > 0 ? true : undefined
  if (plain !== undefined) return gzip > plain
  return gzip > 0 && [...weights].every(([name, weight]) => name === 'gzip' || name === '' || weight === 0)
}

/** One coding of Accept-Encoding and its weight. */
function weightOf(item: string): [string, number] {
  const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => /^q\s*=/.test(parameter))
  return [name, weight === undefined ? 1 : Number(weight.split('=')[1]) || 0]
}

function filenameParameter(name: string): string {
  if (/^[\w.+-]+$/.test(name)) return `filename=${name}`
  const quoted = name.replace(/[^\x20-\x7e]/g, '_').replace(/["\\]/g, '\\$&')
  return `filename="${quoted}"; filename*=UTF-8''${encodeURIComponent(name)}`
}
