/** Who makes a request that has a session: the person, and in which team with which role. Read anew for every request. */
import type { FastifyRequest } from 'fastify'
import { header } from '../contract/constants.ts'
import type { Person, Role } from '../core/person/person.ts'
import type { PersonStore } from '../core/person/person-store.ts'
import type { PersonSession } from '../core/sign-in/person-session.ts'
import type { SessionService } from '../core/sign-in/sessions.ts'
import type { TeamService } from '../core/team/service.ts'
import type { Caller, Team } from '../core/team/team.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import type { SessionCookies } from './session-cookie.ts'

type SessionCallerParts = {
  sessions: SessionService
  cookies: SessionCookies
  people: Pick<PersonStore, 'roleIn' | 'rolesOf'>
  teams: Pick<TeamService, 'getTeam'>
}

export type SignedIn = { person: Person; session: PersonSession }

export class SessionCallers {
  readonly #parts: SessionCallerParts
  readonly #known = new WeakMap<FastifyRequest, Promise<SignedIn | undefined>>()

  constructor(parts: SessionCallerParts) {
    this.#parts = parts
  }

  /** Undefined if the request has no session. Rejects if it has one that ended, or may not use it. */
  signedIn(request: FastifyRequest): Promise<SignedIn | undefined> {
    let found = this.#known.get(request)
    if (!found) {
      found = this.#authenticate(request)
      this.#known.set(request, found)
    }
    return found
  }

  /** As a caller on behalf of the team that X-Team-ID names, or of the person's only team. */
  async callerOf(request: FastifyRequest): Promise<Caller | undefined> {
    const found = await this.signedIn(request)
    if (!found) return undefined
    const { person, session } = found
    const { team, role } = await this.#teamOf(person, request.headers[header.teamID])
    return { team, role, person, credential: { kind: 'session', id: session.sessionID, expiresAt: null } }
  }

  async #authenticate(request: FastifyRequest): Promise<SignedIn | undefined> {
    const token = this.#parts.cookies.sessionOf(request)
    return token === undefined ? undefined : this.#parts.sessions.authenticate(token)
  }

  async #teamOf(person: Person, named: unknown): Promise<{ team: Team; role: Role }> {
    const { people, teams } = this.#parts
    if (typeof named !== 'string') {
      const memberships = await people.rolesOf(person.personID)
      const [only] = memberships
      if (only && memberships.length === 1) return { team: await teams.getTeam(only.teamID), role: only.role }
      throw new AppError('invalid_argument', 'Name the team that the request is for in the X-Team-ID header.')
    }
    // Who is not in a team does not learn whether there is one.
    const team = await teams.getTeam(named).catch((error) => {
      if (!isAppError(error, 'not_found')) throw error
      return undefined
    })
    const role = team && (person.isOperator ? 'owner' : await people.roleIn(team.teamID, person.personID))
    if (team && role) return { team, role }
    throw new AppError(
      'permission_denied',
      `You are in no team '${named.slice(0, 100)}'; GET /me lists your teams.`,
    )
  }
}
