import { failures } from '../../../contract/rest/shared.ts'
import { CancelReport, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function cancelTeamBuildsRoute(app: Api, { auth, teams, builds }: RouteContext): void {
  app.post(
    '/admin/teams/:teamID/builds/cancel',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Cancel every build of a team that waits or is under way',
        params: TeamPath,
        response: { 200: CancelReport, ...failures },
      },
    },
    async (request) => builds.cancelAllOf(await teams.getTeam(request.params.teamID)),
  )
}
