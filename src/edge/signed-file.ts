/** Finds the sandbox a signed file URL belongs to when neither host nor header says so. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Route } from '../core/sandbox/routes.ts'

/**
 * The signature covers the agent's token, so it fits one running sandbox only. This chooses the sandbox and
 * grants nothing: the agent checks signature and expiry itself.
 */
export function routeOfSignedFile(
  method: string | undefined,
  path: string,
  routes: Iterable<Route>,
): Route | undefined {
  const query = new URLSearchParams(path.slice(path.indexOf('?') + 1))
  const given = digestOf(query.get('signature') ?? '')
  if (!given) return undefined
  const operation = method === 'POST' ? 'write' : 'read'
  const signed = createHash('sha256').update(
    `${query.get('path') ?? ''}:${operation}:${query.get('username') ?? ''}:`,
  )
  const expiration = query.get('signature_expiration')
  const suffix = expiration === null ? '' : `:${expiration}`
  for (const route of routes) {
    // Copying keeps the cost per sandbox small however long the path is.
    if (timingSafeEqual(given, signed.copy().update(`${route.agentToken}${suffix}`).digest())) return route
  }
  return undefined
}

function digestOf(signature: string): Buffer | null {
  if (!/^v1_[A-Za-z0-9+/]{43}$/.test(signature)) return null
  return Buffer.from(signature.slice(3), 'base64')
}
