import { Type } from 'typebox'
import { Member } from '../../../contract/rest/person.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { requireNamedTeam } from '../teams/usage-period.ts'
import { memberSchema } from './member-schema.ts'
import { presentMember } from './present-member.ts'

export function listMembersRoute(app: Api, { auth, members }: RouteContext): void {
  app.get(
    '/teams/:teamID/members',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...memberSchema,
        summary: 'List the members of the team, and who is invited',
        params: TeamPath,
        response: { 200: Type.Array(Member), ...failures },
      },
    },
    async (request) => {
      const { teamID } = requireNamedTeam(auth.teamOf(request), request.params.teamID)
      return (await members.list(teamID)).map(presentMember)
    },
  )
}
