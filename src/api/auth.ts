/**
 * Authenticates a request: a team by its key or an access token, or the operator by the admin token (on
 * behalf of a team if X-Team-ID names one).
 */
import type { FastifyContextConfig, FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { header } from '../contract/constants.ts'
import { atLeast, isRole, type Role } from '../core/person/person.ts'
import type { AccessTokens } from '../core/team/access-tokens.ts'
import type { TeamService } from '../core/team/service.ts'
import { type Caller, sameSecret, type Team } from '../core/team/team.ts'
import { AppError } from '../lib/app-error.ts'
import type { TrustedProxies } from '../lib/client-origin.ts'
import { setRequestOwner } from '../lib/request-owner.ts'
import type { RateLimit } from './rate-limit.ts'
import type { SessionCallers, SignedIn } from './session-callers.ts'

type AuthenticatorParts = {
  teams: TeamService
  accessTokens: AccessTokens
  adminToken: string
  rateLimit: RateLimit
  /** Undefined: people do not sign in here. */
  sessionCallers: SessionCallers | undefined
  proxies: TrustedProxies
}

export class Authenticator {
  readonly #parts: AuthenticatorParts
  readonly #callerOfRequest = new WeakMap<FastifyRequest, Caller>()
  readonly #adminRequests = new WeakSet<FastifyRequest>()
  readonly #signedIn = new WeakMap<FastifyRequest, SignedIn>()

  constructor(parts: AuthenticatorParts) {
    this.#parts = parts
  }

  /** An onRequest hook, so that it runs before the body is read or validated. */
  readonly requireTeam: onRequestAsyncHookHandler = async (request, reply) => {
    const caller = await this.#authenticate(request)
    this.#callerOfRequest.set(request, caller)
    setRequestOwner(request.raw, { team: caller.team.teamID })
    this.#count(caller, reply)
    requireRole(caller.role, request.routeOptions.config.permission)
  }

  readonly requireAdmin: onRequestAsyncHookHandler = async (request) => {
    this.#admit(request, this.#isAdmin(request) || (await this.#isOfOperator(request)))
  }

  /** For programs that can send only a bearer token, not a header of their choice. */
  readonly requireAdminOrBearer: onRequestAsyncHookHandler = async (request) => {
    const bearer = bearerToken(request)
    const isBearer = bearer !== undefined && sameSecret(bearer, this.#parts.adminToken)
    this.#admit(request, isBearer || this.#isAdmin(request))
  }

  /** For what belongs to a person, whatever team it is about. */
  readonly requireSession: onRequestAsyncHookHandler = async (request) => {
    const found = await this.#parts.sessionCallers?.signedIn(request)
    if (!found) {
      throw new AppError(
        'unauthenticated',
        'Only a person who signed in has this: open the dashboard and sign in.',
      )
    }
    this.#signedIn.set(request, found)
  }

  /** Undefined if the route did not ask for a session, or an operator's. */
  findSignedIn(request: FastifyRequest): SignedIn | undefined {
    return this.#signedIn.get(request)
  }

  signedInOf(request: FastifyRequest): SignedIn {
    const found = this.findSignedIn(request)
    if (!found) throw new AppError('internal', 'This route asks for a person without requiring one')
    return found
  }

  /** Undefined if the request has no session, or is for no team. */
  async callerOfSession(request: FastifyRequest): Promise<Caller | undefined> {
    return this.#parts.sessionCallers?.callerOf(request)
  }

  /** Undefined if the request has none. */
  async sessionOf(request: FastifyRequest): Promise<SignedIn | undefined> {
    return this.#parts.sessionCallers?.signedIn(request)
  }

  async #isOfOperator(request: FastifyRequest): Promise<boolean> {
    const found = await this.#parts.sessionCallers?.signedIn(request)
    if (!found?.person.isOperator) return false
    this.#signedIn.set(request, found)
    return true
  }

  #admit(request: FastifyRequest, isAdmin: boolean): void {
    if (!isAdmin) throw new AppError('unauthenticated', 'This needs the operator: send a valid X-Admin-Token')
    this.#adminRequests.add(request)
  }

  /** The client's. */
  addressOf(request: FastifyRequest): string {
    return this.#parts.proxies.clientAddressOf(request.raw)
  }

  teamOf(request: FastifyRequest): Team {
    return this.requiredCallerOf(request).team
  }

  requiredCallerOf(request: FastifyRequest): Caller {
    const caller = this.callerOf(request)
    if (!caller) throw new AppError('internal', 'This route asks for a team without requiring one')
    return caller
  }

  /** True if the caller may know by what sandboxes and volumes are entered. */
  mayEnter(request: FastifyRequest): boolean {
    return atLeast(this.requiredCallerOf(request).role, 'member')
  }

  /** Undefined if the request has no valid credential of a team. */
  callerOf(request: FastifyRequest): Caller | undefined {
    return this.#callerOfRequest.get(request)
  }

  /** True if the operator made the request, not on behalf of a team. */
  isOfAdmin(request: FastifyRequest): boolean {
    return this.#adminRequests.has(request)
  }

  async #authenticate(request: FastifyRequest): Promise<Caller> {
    const { teams, accessTokens } = this.#parts
    const address = this.addressOf(request)
    const key = textHeader(request, header.apiKey)
    if (key !== undefined) return teams.authenticate(key, address)
    const token = bearerToken(request)
    if (token !== undefined) return ofTeam(await accessTokens.authenticate(token, address), request)
    const teamID = textHeader(request, header.teamID)
    if (teamID !== undefined && this.#isAdmin(request)) {
      const credential = { kind: 'admin token', id: null, expiresAt: null } as const
      return { team: await teams.getTeam(teamID), role: 'owner', person: null, credential }
    }
    const caller = await this.callerOfSession(request)
    if (caller) return caller
    throw new AppError(
      'unauthenticated',
      "The API key is missing: send it in the X-API-Key header, or set E2B_API_KEY ('warren env' prints it)",
    )
  }

  /**
   * Counts the request against its team's limit, so that more keys do not allow more requests. The operator
   * has no limit.
   */
  #count({ team, credential }: Caller, reply: FastifyReply): void {
    if (credential.id === null) return
    const { headers, isOver, resetSeconds } = this.#parts.rateLimit.count(team.teamID)
    reply.headers(headers)
    if (!isOver) return
    throw new AppError(
      'limit_reached',
      `Too many requests of this team: try again in ${resetSeconds} s, or send fewer at a time ` +
        '(WARREN_REQUESTS_PER_MINUTE)',
      { retry: { should: true, afterSeconds: resetSeconds } },
    )
  }

  #isAdmin(request: FastifyRequest): boolean {
    const token = textHeader(request, header.adminToken)
    return token !== undefined && sameSecret(token, this.#parts.adminToken)
  }
}

function requireRole(role: Role, needed: FastifyContextConfig['permission']): void {
  if (needed !== undefined && isRole(needed) && atLeast(role, needed)) return
  throw new AppError(
    'permission_denied',
    `This needs the role '${needed}' in the team, and yours is '${role}': ask an owner of the team for it`,
  )
}

/** If a client names a team with its token, it must be the token's team. */
function ofTeam(caller: Caller, request: FastifyRequest): Caller {
  const named = textHeader(request, header.teamID)
  if (named === undefined || named === caller.team.teamID || named === caller.team.slug) return caller
  throw new AppError('permission_denied', 'The access token belongs to another team than X-Team-ID names')
}

export function bearerToken(request: FastifyRequest): string | undefined {
  return /^Bearer +(\S+)$/i.exec(textHeader(request, 'authorization') ?? '')?.[1]
}

export function textHeader(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' ? value : undefined
}
