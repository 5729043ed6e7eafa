/**
 * The cookies of people, and which requests may use them. Pages of sandboxes are of the same site as the dashboard where there is a
 * domain, so `SameSite` alone would not keep them out: a request with a session must come from the dashboard's own origin.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../lib/app-error.ts'

const readsOnly = new Set(['GET', 'HEAD'])

export class SessionCookies {
  readonly #origin: string
  readonly #isSecure: boolean

  /** The origin of the dashboard, as browsers see it. */
  constructor(origin: string) {
    this.#origin = origin
    this.#isSecure = origin.startsWith('https:')
  }

  get origin(): string {
    return this.#origin
  }

  /** Undefined if the request has none. Rejects if it has one and does not come from a page of the dashboard. */
  sessionOf(request: FastifyRequest): string | undefined {
    const token = this.#read(request, this.#sessionName)
    if (token !== undefined) this.#requireOwnOrigin(request)
    return token
  }

  attemptOf(request: FastifyRequest): string | undefined {
    return this.#read(request, this.#attemptName)
  }

  setSession(reply: FastifyReply, token: string, lifetimeMs: number): void {
    this.#set(reply, this.#sessionName, token, lifetimeMs, 'Strict')
  }

  clearSession(reply: FastifyReply): void {
    this.#set(reply, this.#sessionName, '', 0, 'Strict')
  }

  /** `Lax`, because the browser comes back from a page of the provider. */
  setAttempt(reply: FastifyReply, text: string, lifetimeMs: number): void {
    this.#set(reply, this.#attemptName, text, lifetimeMs, 'Lax')
  }

  clearAttempt(reply: FastifyReply): void {
    this.#set(reply, this.#attemptName, '', 0, 'Lax')
  }

  /** Browsers accept the prefix only of this very host over TLS, so a page of a sandbox cannot set such a cookie. */
  get #prefix(): string {
    return this.#isSecure ? '__Host-' : ''
  }

  get #sessionName(): string {
    return `${this.#prefix}warren-session`
  }

  get #attemptName(): string {
    return `${this.#prefix}warren-sign-in`
  }

  #set(reply: FastifyReply, name: string, value: string, lifetimeMs: number, site: 'Strict' | 'Lax'): void {
    const maxAge = `Max-Age=${Math.floor(lifetimeMs / 1000)}`
    const parts = [`${name}=${value}`, 'Path=/', maxAge, 'HttpOnly', `SameSite=${site}`]
    // Fastify adds to the cookies that the answer has.
    reply.header('set-cookie', [...parts, ...(this.#isSecure ? ['Secure'] : [])].join('; '))
  }

  /** Undefined if there are several with the name: then it is unclear who set which. */
  #read({ headers }: FastifyRequest, name: string): string | undefined {
    const found = (headers.cookie ?? '').split(/; */).filter((pair) => pair.startsWith(`${name}=`))
    const value = found.length === 1 ? found[0]!.slice(name.length + 1) : ''
    return value === '' ? undefined : value
  }

  #requireOwnOrigin({ method, headers }: FastifyRequest): void {
    const { origin } = headers
    const site = headers['sec-fetch-site']
    const isOwn =
      (origin === undefined || origin === this.#origin) && (site === undefined || site === 'same-origin')
    const saysWhere = origin !== undefined || site !== undefined
    if (isOwn && (saysWhere || readsOnly.has(method))) return
    // Nobody can make a browser type an address.
    if (site === 'none' && origin === undefined && readsOnly.has(method)) return
    throw new AppError(
      'permission_denied',
      `A session works only on pages of ${this.#origin}. Programs use an API key in the X-API-Key header.`,
    )
  }
}
