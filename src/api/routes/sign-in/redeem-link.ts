import { failures } from '../../../contract/rest/shared.ts'
import { CreatedApiKey, LinkCode } from '../../../contract/rest/team.ts'
import type { DashboardLinks } from '../../../core/sign-in/dashboard-links.ts'
import { operatorGrant } from '../../../core/team/key-grants.ts'
import type { Caller } from '../../../core/team/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { recordedFor } from '../../record-changes.ts'
import { teamSchema } from '../teams/team-schema.ts'

const keyLifetimeMs = 12 * 3600_000

/** The page of the dashboard sends the code of its address, so that a preview of the link uses nothing up. */
export function redeemLinkRoute(app: Api, context: RouteContext, links: DashboardLinks): void {
  const { teams, clock } = context
  app.post(
    '/dashboard-links/redeem',
    {
      schema: {
        ...teamSchema,
        security: [],
        summary: 'Exchange the code of a link for an API key of 12 hours; a code works once',
        body: LinkCode,
        response: { 201: CreatedApiKey, ...failures },
      },
    },
    async (request, reply) => {
      const team = await teams.getTeam(links.redeem(request.body.code))
      // The operator made the link.
      const credential = { kind: 'admin token', id: null, expiresAt: null } as const
      const caller: Caller = { team, role: 'owner', person: null, credential }
      const now = clock.now()
      const grant = operatorGrant({ expiresAt: now + keyLifetimeMs }, now)
      const { key, record } = await recordedFor(context, request, { caller, action: 'key.create' }, () =>
        teams.createKey(team.teamID, 'warren quickstart', grant),
      )
      reply.header('cache-control', 'no-store')
      return reply.code(201).send({ ...presentKey(record), key })
    },
  )
}
