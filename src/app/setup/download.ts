/** Downloads a file whose checksum is known beforehand. */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError, errorText } from '../../lib/app-error.ts'
import type { Advance } from './progress.ts'

export type PinnedFile = { name: string; url: string; sha256: string; bytes: number }

/** A server that sends nothing for this long counts as unreachable. */
const silenceMs = 20_000

export async function downloadPinned(
  { name, url, sha256, bytes }: PinnedFile,
  path: string,
  advance: Advance,
): Promise<void> {
  const silence = new AbortController()
  let timer = setTimeout(() => silence.abort(), silenceMs)
  const heard = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(), silenceMs)
  }
  const hash = createHash('sha256')
  try {
    const response = await fetch(url, { signal: silence.signal })
    if (!response.ok || !response.body) throw new Error(`the server answered ${response.status}`)
    let read = 0
    const counted = async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        heard()
        hash.update(chunk)
        read += chunk.length
        if (read > bytes) throw new Error(`the server sent more than ${bytes} bytes`)
        advance(read / bytes, `${Math.round(read / 1e6)} MB`)
        yield chunk
      }
    }
    await pipeline(Readable.fromWeb(response.body), counted, createWriteStream(path))
  } catch (error) {
    const why = silence.signal.aborted ? 'the server is silent' : reasonOf(error)
    throw new AppError('unavailable', `${name} cannot be downloaded: ${why}.${remedyFor(why)}`, {
      cause: error,
    })
  } finally {
    clearTimeout(timer)
  }
  if (hash.digest('hex') !== sha256) {
    throw new AppError('unavailable', `The download of ${name} has the wrong checksum and is not used.`)
  }
}

const remedyFor = (why: string): string =>
  /certificate/i.test(why)
    ? ' If a proxy in your network inspects TLS, start Warren with WARREN_EXTRA_CA=host, which trusts what this machine trusts.'
    : ''

/** The reason of a failed fetch is in its cause. */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? errorText(error.cause) : errorText(error)
}
