import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { LimitChanges, NewTeam, Team, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTeam } from '../../present.ts'

export function teamRoutes(app: Api, { auth, teams }: RouteContext): void {
  const onRequest = auth.requireAdmin
  const schema = { tags: ['admin'], security: [{ AdminApiKeyAuth: [] }] }

  app.post(
    '/admin/teams',
    {
      onRequest,
      schema: { ...schema, summary: 'Make a team', body: NewTeam, response: { 201: Team, ...failures } },
    },
    async (request, reply) => {
      const team = await teams.createTeam(request.body.name, request.body.slug)
      return reply.code(201).send(presentTeam(team))
    },
  )

  app.get(
    '/admin/teams',
    {
      onRequest,
      schema: { ...schema, summary: 'List teams', response: { 200: Type.Array(Team), ...failures } },
    },
    async () => (await teams.listTeams()).map(presentTeam),
  )

  app.patch(
    '/admin/teams/:teamID/limits',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Change the limits of a team',
        params: TeamPath,
        body: LimitChanges,
        response: { 200: Team, ...failures },
      },
    },
    async (request) => presentTeam(await teams.changeLimits(request.params.teamID, request.body)),
  )
}
