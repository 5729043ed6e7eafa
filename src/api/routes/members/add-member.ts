import { Member, NewMember } from '../../../contract/rest/person.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { TeamPath } from '../../../contract/rest/team.ts'
import { labelOf } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { requireNamedTeam } from '../teams/usage-period.ts'
import { memberSchema } from './member-schema.ts'
import { presentMember } from './present-member.ts'

export function addMemberRoute(app: Api, { auth, members }: RouteContext): void {
  app.post(
    '/teams/:teamID/members',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...memberSchema,
        summary: 'Add a person to the team by e-mail address; who has never signed in is invited',
        params: TeamPath,
        body: NewMember,
        response: { 201: Member, ...failures },
      },
    },
    async (request, reply) => {
      const caller = auth.requiredCallerOf(request)
      const { teamID } = requireNamedTeam(caller.team, request.params.teamID)
      const member = await members.add(teamID, { ...request.body, addedBy: labelOf(caller) })
      return reply.code(201).send(presentMember(member))
    },
  )
}
