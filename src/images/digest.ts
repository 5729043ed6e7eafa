/** Digests: an algorithm and the hash in hex. Content that does not match its digest is never used. */
import { createHash, type Hash } from 'node:crypto'
import { AppError } from '../lib/app-error.ts'

const lengths: Record<string, number> = { sha256: 64, sha512: 128 }

export function isDigest(text: unknown): text is string {
  if (typeof text !== 'string') return false
  const [algorithm = '', hex = '', ...rest] = text.split(':')
  return rest.length === 0 && hex.length === lengths[algorithm] && /^[0-9a-f]+$/.test(hex)
}

export function hasherFor(digest: string): Hash {
  return createHash(digest.slice(0, digest.indexOf(':')))
}

export function digestOf(bytes: Uint8Array, algorithm = 'sha256'): string {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`
}

export function verifyDigest(what: string, bytes: Uint8Array, digest: string): void {
  if (digestOf(bytes, digest.slice(0, digest.indexOf(':'))) !== digest) throw wrongDigest(what, digest)
}

export function wrongDigest(what: string, digest: string): AppError {
  return new AppError(
    'unprocessable',
    `${what} does not match its digest ${shortDigest(digest)}: it was damaged or changed on its way. Try again; if the error stays, the registry has a broken copy.`,
  )
}

/** Long enough to identify the content in a log line. */
export function shortDigest(digest: string): string {
  return digest.slice(0, digest.indexOf(':') + 13)
}
