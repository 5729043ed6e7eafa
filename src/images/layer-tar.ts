/**
 * A layer as one tar stream, exactly as it is on disk: owners, modes, times, hard links, extended attributes,
 * whiteouts, holes. The same layer always has the same digest, so the digest can name it.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError } from '../lib/app-error.ts'

const exact = ['--numeric-owner', '--acls', '--xattrs', '--xattrs-include=*']
/** Without the process ID and the times at which files were read. */
const pax = 'exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime'
const repeatable = ['--format=posix', '--sort=name', `--pax-option=${pax}`]
const maxWords = 10_000

export const packTree = (folder: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> =>
  createTar(folder, ['--sparse'], signal)

async function* createTar(
  folder: string,
  options: readonly string[],
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const tar = spawn('tar', ['--create', ...options, ...repeatable, ...exact, '--directory', folder, '.'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(signal && { signal }),
  })
  const ended = endOf(tar)
  ended.catch(() => {})
  try {
    yield* tar.stdout as AsyncIterable<Uint8Array>
    await ended
  } finally {
    tar.kill()
  }
}

/** Unpacks into a folder that nobody else writes to. */
export async function unpackTree(
  content: AsyncIterable<Uint8Array>,
  folder: string,
  signal?: AbortSignal,
): Promise<void> {
  const tar = spawn(
    'tar',
    ['--extract', '--same-owner', '--preserve-permissions', ...exact, '--directory', folder],
    {
      stdio: ['pipe', 'ignore', 'pipe'],
      ...(signal && { signal }),
    },
  )
  const ended = endOf(tar)
  ended.catch(() => {})
  const piped = await pipeline(Readable.from(content, { objectMode: false }), tar.stdin).then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error,
  )
  if (piped && piped.code !== 'EPIPE') {
    tar.kill()
    throw piped
  }
  await ended
}

/** Holes count as zeros, because tar encodes them differently from one run to the next. */
export async function digestOfTree(folder: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createTar(folder, [])) hash.update(chunk)
  return `sha256:${hash.digest('hex')}`
}

async function endOf(tar: ReturnType<typeof spawn>): Promise<void> {
  let said = ''
  tar.stderr!.on('data', (chunk: Buffer) => {
    if (said.length < maxWords) said += chunk.toString()
  })
  const [exitCode] = (await once(tar, 'close')) as [number | null]
  if (exitCode === 0) return
  throw new AppError('internal', 'A layer could not be packed or unpacked; the log has the cause.', {
    cause: new Error(`tar ended with ${exitCode}: ${said.trim()}`),
  })
}
