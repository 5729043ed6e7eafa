import { failures } from '../../../contract/rest/shared.ts'
import { KillReport, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function killTeamSandboxesRoute(app: Api, { auth, teams, teamRemover }: RouteContext): void {
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
    async (request) => teamRemover.killSandboxes(await teams.getTeam(request.params.teamID)),
  )
}
