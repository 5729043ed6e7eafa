/**
 * Finds the sandbox of a signed file URL if neither host nor header names it, and checks whether the
 * signature is still valid.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Route } from '../core/sandbox/network/routes.ts'

/**
 * The signature covers the agent's token, so it fits one sandbox only. This selects the sandbox and grants
 * nothing: the agent checks signature and expiry itself.
 */
export function routeOfSignedFile<R extends Pick<Route, 'agentToken'>>(
  method: string | undefined,
  path: string,
  routes: Iterable<R>,
): R | undefined {
  const query = queryOf(path)
  const given = digestOf(query.get('signature') ?? '')
  if (!given) return undefined
  const operation = method === 'POST' ? 'write' : 'read'
  const signed = createHash('sha256').update(
    `${query.get('path') ?? ''}:${operation}:${query.get('username') ?? ''}:`,
  )
  const expiration = query.get('signature_expiration')
  const suffix = expiration === null ? '' : `:${expiration}`
  for (const route of routes) {
    // Copying the hash keeps the cost per sandbox small however long the path is.
    if (timingSafeEqual(given, signed.copy().update(`${route.agentToken}${suffix}`).digest())) return route
  }
  return undefined
}

/** True if the query has a text in the form of a signature. */
export const isSignature = (path: string): boolean => digestOf(queryOf(path).get('signature') ?? '') !== null

/** True if the agent behind the route would accept the signature now. */
export function isSignedFor(
  route: Pick<Route, 'agentToken'>,
  method: string | undefined,
  path: string,
  nowMs: number,
): boolean {
  if (!routeOfSignedFile(method, path, [route])) return false
  const expiration = queryOf(path).get('signature_expiration')
  return expiration === null || Number(expiration) * 1000 > nowMs
}

function queryOf(path: string): URLSearchParams {
  return new URLSearchParams(path.slice(path.indexOf('?') + 1))
}

function digestOf(signature: string): Buffer | null {
  if (!/^v1_[A-Za-z0-9+/]{43}$/.test(signature)) return null
  return Buffer.from(signature.slice(3), 'base64')
}
