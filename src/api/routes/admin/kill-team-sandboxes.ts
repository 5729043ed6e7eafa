import { failures } from '../../../contract/rest/shared.ts'
import { KillReport, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { onEveryNode, totalOf } from '../../every-node.ts'
import { adminSchema } from './admin-schema.ts'

export function killTeamSandboxesRoute(app: Api, context: RouteContext): void {
  const { auth, teams, teamRemover } = context
  app.post(
    '/admin/teams/:teamID/sandboxes/kill',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Kill every sandbox of a team, paused ones included',
        params: TeamPath,
        response: { 200: KillReport, ...failures },
      },
    },
    async (request) => {
      const team = await teams.getTeam(request.params.teamID)
      const { parts, missing } = await onEveryNode(context, request, () => teamRemover.killSandboxes(team))
      const { sandboxes } = await teamRemover.leftOn(team, missing)
      const { killedCount, failedCount } = totalOf(parts)
      return { killedCount, failedCount: failedCount + sandboxes }
    },
  )
}
