/** Who is asking: a team by its key, or the operator by the admin token (for a team when X-Team-ID names one). */
import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { header } from '../contract/constants.ts'
import type { TeamService } from '../core/team/service.ts'
import { sameSecret, type Team } from '../core/team/team.ts'
import { AppError } from '../lib/app-error.ts'

export class Authenticator {
  readonly #teams: TeamService
  readonly #adminToken: string
  readonly #teamOfRequest = new WeakMap<FastifyRequest, Team>()

  constructor(teams: TeamService, adminToken: string) {
    this.#teams = teams
    this.#adminToken = adminToken
  }

  /** An onRequest hook, so that it runs before the body is read or validated. */
  readonly requireTeam: onRequestAsyncHookHandler = async (request) => {
    this.#teamOfRequest.set(request, await this.#authenticate(request))
  }

  readonly requireAdmin: onRequestAsyncHookHandler = async (request) => {
    if (!this.#isAdmin(request)) {
      throw new AppError('unauthenticated', 'This needs the operator: send a valid X-Admin-Token')
    }
  }

  teamOf(request: FastifyRequest): Team {
    const team = this.#teamOfRequest.get(request)
    if (!team) throw new AppError('internal', 'This route asks for a team without requiring one')
    return team
  }

  async #authenticate(request: FastifyRequest): Promise<Team> {
    const key = textHeader(request, header.apiKey)
    if (key !== undefined) return this.#teams.authenticate(key)
    const teamID = textHeader(request, 'x-team-id')
    if (teamID !== undefined && this.#isAdmin(request)) return this.#teams.getTeam(teamID)
    throw new AppError(
      'unauthenticated',
      "The API key is missing: send it in the X-API-Key header, or set E2B_API_KEY ('warren env' prints it)",
    )
  }

  #isAdmin(request: FastifyRequest): boolean {
    const token = textHeader(request, header.adminToken)
    return token !== undefined && sameSecret(token, this.#adminToken)
  }
}

export function textHeader(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' ? value : undefined
}
