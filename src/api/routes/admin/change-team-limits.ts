import { failures } from '../../../contract/rest/shared.ts'
import { LimitChanges, Team, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTeam } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function changeTeamLimitsRoute(app: Api, { auth, teams }: RouteContext): void {
  app.patch(
    '/admin/teams/:teamID/limits',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Change the limits of a team',
        params: TeamPath,
        body: LimitChanges,
        response: { 200: Team, ...failures },
      },
    },
    async (request) => presentTeam(await teams.changeLimits(request.params.teamID, request.body)),
  )
}
