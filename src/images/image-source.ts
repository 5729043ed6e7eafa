/** The source of an image's parts: a registry, or a folder on this machine. Neither is trusted. */
import { AppError, isAppError } from '../lib/app-error.ts'
import { delay } from '../lib/clock.ts'
import { verifyDigest } from './digest.ts'
import { type Descriptor, unusable } from './manifest.ts'

export type Fetched = { bytes: Buffer; mediaType: string }

export interface ImageSource {
  /** The document that the name refers to, or the one with this digest. */
  document(digest?: string): Promise<Fetched>
  /** Yields the bytes of a blob from `offset` on. May break off: the caller then asks again. */
  blob(digest: string, offset: number, signal: AbortSignal): Promise<AsyncIterable<Buffer>>
  close(): void
}

export const largestDocument = 4 << 20
const largestConfig = 8 << 20
const attempts = 5
/** Maximum number of times that one blob may break off, even if each attempt made progress. */
const maxBreaks = 20

export async function fetchDocument(
  source: ImageSource,
  what: string,
  digest: string | undefined,
  signal: AbortSignal,
): Promise<Fetched> {
  const fetched = await withRetries(signal, () => source.document(digest))
  if (digest !== undefined) verifyDigest(`The manifest of ${what}`, fetched.bytes, digest)
  return fetched
}

export async function fetchConfig(
  source: ImageSource,
  what: string,
  config: Descriptor,
  signal: AbortSignal,
): Promise<Buffer> {
  if (config.size > largestConfig) throw unusable(what, `has a configuration of ${config.size} bytes`)
  const parts: Buffer[] = []
  for await (const part of blobBytes(source, config, signal)) parts.push(part)
  const bytes = Buffer.concat(parts)
  verifyDigest(`The configuration of ${what}`, bytes, config.digest)
  return bytes
}

/** Yields all bytes of a blob. A broken connection is opened again and continues where it broke off. */
export async function* blobBytes(
  source: ImageSource,
  { digest, size }: Descriptor,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let at = 0
  for (let failures = 0, breaks = 0; ; ) {
    const before = at
    try {
      for await (const chunk of await source.blob(digest, at, signal)) {
        at += chunk.length
        if (at > size)
          throw new AppError('unprocessable', `A layer is larger than its declared ${size} bytes.`)
        yield chunk
      }
      if (at === size) return
      throw new AppError('unavailable', 'The registry broke off in the middle of a layer.', retriable)
    } catch (error) {
      failures = at > before ? 1 : failures + 1
      if (++breaks > maxBreaks) throw error
      await afterFailure(error, failures, signal)
    }
  }
}

/** Marks failures that may well succeed a moment later. */
export const retriable = { retry: { should: true } } as const

async function withRetries<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work()
    } catch (error) {
      await afterFailure(error, failures, signal)
    }
  }
}

async function afterFailure(error: unknown, failures: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (!isAppError(error) || !error.retry?.should || failures >= attempts) throw error
  await delay((error.retry.afterSeconds ?? 0) * 1000 || 200 * 2 ** failures, signal)
}
