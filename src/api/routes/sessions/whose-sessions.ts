import type { FastifyRequest } from 'fastify'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'

/** Rejects unless the caller is the person, an operator, or an owner of a team that the person is in. */
export async function requireMaySee(
  { auth, people }: RouteContext,
  request: FastifyRequest,
  named: string | undefined,
): Promise<string> {
  const { person } = auth.signedInOf(request)
  if (named === undefined || named === person.personID) return person.personID
  if (person.isOperator) return named
  const caller = await auth.callerOfSession(request)
  const isTheirs = caller?.role === 'owner' && (await people.roleIn(caller.team.teamID, named)) !== undefined
  if (isTheirs) return named
  throw new AppError(
    'permission_denied',
    'Only the person, an owner of their team, and an operator may do this.',
  )
}
