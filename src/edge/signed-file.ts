/**
 * Finds the sandbox of a signed file URL if neither host nor header names it, and checks whether the
 * signature is still valid.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Route, RouteTable } from '../core/sandbox/network/routes.ts'
import type { Clock } from '../lib/clock.ts'

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

/** Sandboxes that searches without a result may compare each second, and at once. A comparison takes some 5 µs. */
const comparedPerSecond = 20_000
const maxCompared = 2 * comparedPerSecond
const maxRemembered = 1000
const longestRemembered = 4096

/**
 * Searches the running sandboxes of this node. Anybody may send a signature, and one that fits none costs a hash for
 * each sandbox, so these searches are limited. A link that was found once is found without a search.
 */
export class SignedFileSearch {
  readonly #routes: Pick<RouteTable, 'get' | 'values'>
  readonly #clock: Pick<Clock, 'now'>
  readonly #found = new Map<string, string>()
  #left = maxCompared
  #at = 0

  constructor(routes: Pick<RouteTable, 'get' | 'values'>, clock: Pick<Clock, 'now'>) {
    this.#routes = routes
    this.#clock = clock
  }

  /** `busy`: too many signatures fitted no sandbox lately. */
  find(method: string | undefined, path: string): Route | 'busy' | undefined {
    if (!isSignature(path)) return undefined
    const key = `${method} ${path}`
    const known = this.#routes.get(this.#found.get(key) ?? '')
    if (known && routeOfSignedFile(method, path, [known])) return known
    this.#found.delete(key)
    if (!this.#hasTime()) return 'busy'
    const routes = [...this.#routes.values()]
    const route = routeOfSignedFile(method, path, routes)
    if (route) this.#remember(key, route.sandboxID)
    else this.#left -= routes.length
    return route
  }

  #hasTime(): boolean {
    const now = this.#clock.now()
    const fresh = (Math.max(0, now - this.#at) / 1000) * comparedPerSecond
    this.#left = Math.min(maxCompared, this.#left + fresh)
    this.#at = now
    return this.#left > 0
  }

  #remember(key: string, sandboxID: string): void {
    if (key.length > longestRemembered) return
    const [oldest] = this.#found.keys()
    if (this.#found.size >= maxRemembered && oldest !== undefined) this.#found.delete(oldest)
    this.#found.set(key, sandboxID)
  }
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
