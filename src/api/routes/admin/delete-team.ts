import { Empty, failures } from '../../../contract/rest/shared.ts'
import { TeamPath, TeamRemoval } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function deleteTeamRoute(app: Api, { auth, teams, teamRemover }: RouteContext): void {
  app.delete(
    '/admin/teams/:teamID',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Delete a team with its keys and secrets',
        params: TeamPath,
        querystring: TeamRemoval,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const team = await teams.getTeam(request.params.teamID)
      await teamRemover.remove(team, { force: request.query.force ?? false })
      return reply.code(204).send(null)
    },
  )
}
