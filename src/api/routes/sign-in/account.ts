import type { FastifyRequest } from 'fastify'
import { isAppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'

/** Who is signed in with this browser, and in which teams. Undefined: people do not sign in here. */
export type FormAccount = { name: string; teams: { teamID: string; name: string }[] } | 'nobody' | undefined

export async function accountOf(
  { auth, signIn, people, teams }: RouteContext,
  request: FastifyRequest,
): Promise<FormAccount> {
  if (!signIn) return undefined
  const found = await auth.sessionOf(request).catch((error) => {
    if (!isAppError(error, 'unauthenticated') && !isAppError(error, 'permission_denied')) throw error
    return undefined
  })
  if (!found) return 'nobody'
  const { personID, email, name } = found.person
  const roles = await people.rolesOf(personID)
  const own = await Promise.all(roles.slice(0, 50).map(({ teamID }) => teams.getTeam(teamID)))
  return { name: email ?? name, teams: own.map((team) => ({ teamID: team.teamID, name: team.name })) }
}
