import { Empty, failures } from '../../../contract/rest/shared.ts'
import { TeamPath, TeamRemoval } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { isPartOfAnother, onEveryNodeUntilNoneLeft } from '../../every-node.ts'
import { adminSchema } from './admin-schema.ts'

export function deleteTeamRoute(app: Api, context: RouteContext): void {
  const { auth, teams, teamRemover } = context
  app.delete(
    '/admin/teams/:teamID',
    {
      onRequest: auth.requireAdmin,
      config: { askedOfEveryNode: true },
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
      const force = request.query.force ?? false
      const clear = () => teamRemover.clearNode(team)
      const rounds = force ? await onEveryNodeUntilNoneLeft(context, request, team, clear) : []
      const missing = rounds.at(-1)?.missing ?? []
      // The rest is in the database, where one node deletes it for all.
      if (!isPartOfAnother(context, request)) await teamRemover.remove(team, { force, missing })
      return reply.code(204).send(null)
    },
  )
}
