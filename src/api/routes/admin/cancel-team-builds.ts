import { failures } from '../../../contract/rest/shared.ts'
import { CancelReport, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { onEveryNode, totalOf } from '../../every-node.ts'
import { adminSchema } from './admin-schema.ts'

export function cancelTeamBuildsRoute(app: Api, context: RouteContext): void {
  const { auth, teams, teamRemover, builds } = context
  app.post(
    '/admin/teams/:teamID/builds/cancel',
    {
      onRequest: auth.requireAdmin,
      config: { askedOfEveryNode: true },
      schema: {
        ...adminSchema,
        summary: 'Cancel every build of a team that waits or is under way',
        params: TeamPath,
        response: { 200: CancelReport, ...failures },
      },
    },
    async (request) => {
      const team = await teams.getTeam(request.params.teamID)
      const { parts, missing } = await onEveryNode(context, request, () => builds.cancelAllOf(team))
      const left = await teamRemover.leftOn(team, missing)
      const { cancelledCount, failedCount } = totalOf(parts)
      return { cancelledCount, failedCount: failedCount + left.builds }
    },
  )
}
