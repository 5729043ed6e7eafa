import { MemberPath } from '../../../contract/rest/person.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { requireNamedTeam } from '../teams/usage-period.ts'
import { memberSchema } from './member-schema.ts'

export function removeMemberRoute(app: Api, { auth, members }: RouteContext): void {
  app.delete(
    '/teams/:teamID/members/:personID',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...memberSchema,
        summary: 'Remove a member with their keys in the team; the last owner stays',
        params: MemberPath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { team, role, person } = auth.requiredCallerOf(request)
      const { teamID } = requireNamedTeam(team, request.params.teamID)
      const { personID } = request.params
      if (role !== 'owner' && person?.personID !== personID)
        throw new AppError('permission_denied', 'Only an owner of the team removes others from it')
      await members.remove(teamID, personID)
      return reply.code(204).send(null)
    },
  )
}
