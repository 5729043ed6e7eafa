import { failures } from '../../../contract/rest/shared.ts'
import { CreatedLink, TeamPath } from '../../../contract/rest/team.ts'
import type { DashboardLinks } from '../../../core/sign-in/dashboard-links.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'

export function createLinkRoute(app: Api, { auth, teams }: RouteContext, links: DashboardLinks): void {
  app.post(
    '/admin/teams/:teamID/dashboard-links',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Create the code of a link that logs in to the dashboard once, within 10 minutes',
        params: TeamPath,
        response: { 201: CreatedLink, ...failures },
      },
    },
    async (request, reply) => {
      const { teamID } = await teams.getTeam(request.params.teamID)
      const { code, expiresAt } = links.create(teamID)
      reply.header('cache-control', 'no-store')
      return reply.code(201).send({ code, expiresAt: new Date(expiresAt).toISOString() })
    },
  )
}
