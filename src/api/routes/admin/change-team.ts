import { failures } from '../../../contract/rest/shared.ts'
import { Team, TeamChanges, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTeam } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function changeTeamRoute(app: Api, { auth, teams }: RouteContext): void {
  app.patch(
    '/admin/teams/:teamID',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Allow a team clients that are older than access tokens',
        params: TeamPath,
        body: TeamChanges,
        response: { 200: Team, ...failures },
      },
    },
    async ({ params, body }) => presentTeam(await teams.allowOlderClients(params.teamID, body.olderClients)),
  )
}
