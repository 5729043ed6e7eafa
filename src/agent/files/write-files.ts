/** POST /files: one file as a bare body, or several as a form, streamed to disk. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { basename } from 'node:path'
import type { Readable } from 'node:stream'
import { AppError } from '../../lib/app-error.ts'
import { requireTokenOrSignature } from '../access.ts'
import type { Account } from '../accounts.ts'
import { fromSystemError, sendJSON, systemErrorCode } from '../errors.ts'
import type { FileMetadata, Metadata } from '../filesystem/metadata.ts'
import { logFile } from '../log/file-log.ts'
import { resolvePath } from '../paths.ts'
import { accountFor, type FilesContext } from './files-request.ts'
import { metadataIn } from './metadata-headers.ts'
import { boundaryOf, readParts } from './multipart.ts'
import { storeFile } from './store-file.ts'

type WrittenFile = { name: string; path: string; type: 'file'; metadata?: FileMetadata }

export async function writeFilesRoute(
  { identity, clock, metadata, log }: FilesContext,
  request: IncomingMessage,
  response: ServerResponse,
  query: URLSearchParams,
): Promise<void> {
  let body: AsyncIterableIterator<Buffer> | undefined
  try {
    requireTokenOrSignature(identity, clock, request, query, 'write')
    const account = accountFor(identity, query.get('username') ?? '')
    const given = metadataIn(request)
    const writer = new Writer(account, identity.defaultWorkdir, given, metadata)
    body = decoded(request, response)
    const type = request.headers['content-type'] ?? ''
    const path = query.get('path') ?? ''
    if (/^multipart\/form-data\b/i.test(type)) await writeParts(writer, body, boundaryOf(type), path)
    else if (/^application\/octet-stream\b/i.test(type)) await writer.write(path, body)
    else {
      throw new AppError(
        'invalid_argument',
        'send the file as multipart/form-data or application/octet-stream',
      )
    }
    for (const { path } of writer.written) logFile(log, 'file_write', path, { user: account.name })
    sendJSON(response, 200, writer.written)
  } finally {
    // The client may still be sending: it must be able to finish before it reads a rejection, and its next
    // request on the same connection must get through. A stream that is still iterated does not flow.
    await body?.return?.()
    request.unpipe()
    request.resume()
  }
}

async function writeParts(
  writer: Writer,
  body: AsyncIterableIterator<Buffer>,
  boundary: string,
  path: string,
) {
  for await (const part of readParts(body, boundary)) {
    if (part.name === 'file') await writer.write(path || part.filename || '', part.body)
  }
  if (writer.written.length === 0) {
    throw new AppError('invalid_argument', "the form has no part named 'file'")
  }
}

class Writer {
  readonly written: WrittenFile[] = []
  #account: Account
  #defaultWorkdir: string
  #given: FileMetadata
  #metadata: Metadata

  constructor(account: Account, defaultWorkdir: string, given: FileMetadata, metadata: Metadata) {
    this.#account = account
    this.#defaultWorkdir = defaultWorkdir
    this.#given = given
    this.#metadata = metadata
  }

  async write(given: string, chunks: AsyncIterable<Buffer>): Promise<void> {
    if (given === '')
      throw new AppError('invalid_argument', 'no path given: name the file in the query or the form')
    const path = resolvePath(given, this.#account, this.#defaultWorkdir)
    if (this.written.some((file) => file.path === path)) {
      throw new AppError('invalid_argument', `the same path is given twice: ${path}`)
    }
    const file = { path, account: this.#account, chunks, metadata: this.#given }
    await storeFile(file, this.#metadata).catch((error) => {
      throw brokenBody(error) ?? fromSystemError(error, path)
    })
    const noted = Object.keys(this.#given).length > 0 && { metadata: this.#given }
    this.written.push({ name: basename(path), path, type: 'file', ...noted })
  }
}

/** The bytes of the body without their content encoding. Stopping early must not close the connection. */
function decoded(request: IncomingMessage, response: ServerResponse): AsyncIterableIterator<Buffer> {
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (encoding === 'identity' || encoding === '') return iterate(request)
  if (encoding !== 'gzip') {
    throw new AppError(
      'invalid_argument',
      `Content-Encoding ${encoding} is not supported: send gzip or identity`,
    )
  }
  const plain = process.getBuiltinModule('node:zlib').createGunzip()
  request.on('error', (error) => plain.destroy(error))
  // A small body that unpacks to a lot may have arrived completely before its sender disconnected.
  response.once('close', () => plain.destroy(new AppError('invalid_argument', 'the body was cut off')))
  // The reader of the stream fails with an error; one that comes after the reader has stopped concerns
  // nobody.
  plain.on('error', () => {})
  return iterate(request.pipe(plain))
}

function iterate(stream: Readable): AsyncIterableIterator<Buffer> {
  return stream.iterator({ destroyOnReturn: false })
}

function brokenBody(error: unknown): AppError | undefined {
  const code = systemErrorCode(error)
  if (code === 'ECONNRESET') return new AppError('invalid_argument', 'the body was cut off', { cause: error })
  if (code?.startsWith('Z_'))
    return new AppError('invalid_argument', 'the body is not valid gzip', { cause: error })
  return undefined
}
