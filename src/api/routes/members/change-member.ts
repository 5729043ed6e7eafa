import { MemberChanges, MemberPath } from '../../../contract/rest/person.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { requireNamedTeam } from '../teams/usage-period.ts'
import { memberSchema } from './member-schema.ts'

export function changeMemberRoute(app: Api, { auth, members }: RouteContext): void {
  app.patch(
    '/teams/:teamID/members/:personID',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...memberSchema,
        summary: "Change a member's role, effective on the next request; the last owner stays one",
        params: MemberPath,
        body: MemberChanges,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { teamID } = requireNamedTeam(auth.teamOf(request), request.params.teamID)
      await members.setRole(teamID, request.params.personID, request.body.role)
      return reply.code(204).send(null)
    },
  )
}
