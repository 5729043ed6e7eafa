import { failures } from '../../../contract/rest/shared.ts'
import { HighestTeamMetric, HighestUsageQuery, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'
import { teamSchema } from './team-schema.ts'
import { requireNamedTeam, usagePeriod } from './usage-period.ts'

export function getHighestTeamMetricRoute(app: Api, context: RouteContext): void {
  app.get(
    '/teams/:teamID/metrics/max',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Read the highest value of one metric of the team',
        params: TeamPath,
        querystring: HighestUsageQuery,
        response: { 200: HighestTeamMetric, ...failures },
      },
    },
    async (request) => {
      const team = requireNamedTeam(context.auth.teamOf(request), request.params.teamID)
      const period = usagePeriod(request.query, context)
      const { at, value } = await context.usage.highest(team, request.query.metric, period)
      return { timestamp: dateTime(at), timestampUnix: Math.floor(at / 1000), value }
    },
  )
}
