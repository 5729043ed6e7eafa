import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { TeamMetric, TeamPath, UsageQuery } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'
import { teamSchema } from './team-schema.ts'
import { requireNamedTeam, usagePeriod } from './usage-period.ts'

export function getTeamMetricsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/teams/:teamID/metrics',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Read how many sandboxes the team ran and started over time',
        params: TeamPath,
        querystring: UsageQuery,
        response: { 200: Type.Array(TeamMetric), ...failures },
      },
    },
    async (request) => {
      const team = requireNamedTeam(context.auth.teamOf(request), request.params.teamID)
      const samples = await context.usage.read(team, usagePeriod(request.query, context))
      return samples.map(({ at, ...values }) => ({
        timestamp: dateTime(at),
        timestampUnix: Math.floor(at / 1000),
        ...values,
      }))
    },
  )
}
