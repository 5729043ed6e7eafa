/** POST /files/compose: joins several files into one and removes them. */
import { createReadStream, statSync } from 'node:fs'
import { unlink } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { basename } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { fromSystemError, sendJSON } from '../errors.ts'
import { logFile } from '../log/file-log.ts'
import { resolvePath } from '../paths.ts'
import { readJSON } from '../read-body.ts'
import { accountFor, type FilesContext } from './files-request.ts'
import { storeFile } from './store-file.ts'

const largestBodyMB = 4

type ComposeRequest = { sources: string[]; destination: string; username: string }

export async function composeFilesRoute(
  { identity, metadata, log }: FilesContext,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const asked = parse(await readJSON(request, largestBodyMB))
  const account = accountFor(identity, asked.username)
  const resolved = (path: string) => resolvePath(path, account, identity.defaultWorkdir)
  const sources = asked.sources.map(resolved)
  const path = resolved(asked.destination)
  for (const source of sources) requireFile(source)
  const file = { path, account, chunks: concatenated(sources), metadata: {} }
  await storeFile(file, metadata).catch((error) => {
    throw fromSystemError(error, path)
  })
  for (const source of new Set(sources)) if (source !== path) await unlink(source).catch(() => {})
  logFile(log, 'file_write', path, { user: account.name })
  sendJSON(response, 200, { name: basename(path), path, type: 'file' })
}

function requireFile(path: string): void {
  let isFile: boolean | undefined
  try {
    isFile = statSync(path, { throwIfNoEntry: false })?.isFile()
  } catch (error) {
    throw fromSystemError(error, path)
  }
  if (isFile === undefined) throw new AppError('not_found', `path '${path}' does not exist`)
  if (!isFile) throw new AppError('invalid_argument', `path '${path}' is not a regular file`)
}

async function* concatenated(paths: string[]): AsyncGenerator<Buffer> {
  for (const path of paths) yield* createReadStream(path, { highWaterMark: 256 * 1024 })
}

function parse(body: unknown): ComposeRequest {
  const { source_paths, destination, username: asked } = (body ?? {}) as Record<string, unknown>
  const username = asked ?? ''
  if (!Array.isArray(source_paths) || source_paths.length === 0 || !source_paths.every(isPath)) {
    throw new AppError('invalid_argument', 'source_paths must name at least one file')
  }
  if (!isPath(destination)) throw new AppError('invalid_argument', 'destination must be a path')
  if (typeof username !== 'string') throw new AppError('invalid_argument', 'username must be a string')
  return { sources: source_paths, destination, username }
}

function isPath(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
