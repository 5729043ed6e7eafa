import { failures } from '../../../contract/rest/shared.ts'
import { NewTeam, Team } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTeam } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function createTeamRoute(app: Api, { auth, teams }: RouteContext): void {
  app.post(
    '/admin/teams',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Create a team',
        body: NewTeam,
        response: { 201: Team, ...failures },
      },
    },
    async (request, reply) => {
      const team = await teams.createTeam(request.body.name, request.body.slug)
      return reply.code(201).send(presentTeam(team))
    },
  )
}
