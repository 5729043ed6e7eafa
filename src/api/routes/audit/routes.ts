import { Type } from 'typebox'
import { AllAuditQuery, AuditEntry, AuditQuery } from '../../../contract/rest/audit.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'
import { teamSchema } from '../teams/team-schema.ts'
import { requireNamedTeam } from '../teams/usage-period.ts'
import { AuditFollowers } from './follow.ts'
import { filterOf, sendPage } from './page.ts'

const response = { 200: Type.Array(AuditEntry), ...failures }

export function auditRoutes(app: Api, context: RouteContext): void {
  const { auth } = context
  const followers = new AuditFollowers(context)
  app.get(
    '/teams/:teamID/audit',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Read who changed what in the team, the newest first, or follow it',
        params: TeamPath,
        querystring: AuditQuery,
        response,
      },
    },
    async (request, reply) => {
      const { teamID } = requireNamedTeam(auth.teamOf(request), request.params.teamID)
      const filter = filterOf(request.query, teamID)
      if (request.query.follow) return followers.answer(request, reply, filter)
      return sendPage(context, reply, filter, request.query)
    },
  )
  app.get(
    '/admin/audit',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Read who changed what in all teams and on the machines, or follow it',
        querystring: AllAuditQuery,
        response,
      },
    },
    async (request, reply) => {
      const filter = filterOf(request.query, request.query.team)
      if (request.query.follow) return followers.answer(request, reply, filter)
      return sendPage(context, reply, filter, request.query)
    },
  )
}
