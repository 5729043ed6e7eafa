import { failures } from '../../../contract/rest/shared.ts'
import { TeamPath } from '../../../contract/rest/team.ts'
import { UsageOfDaysQuery, UsageOfTeam } from '../../../contract/rest/usage.ts'
import type { Api, RouteContext } from '../../context.ts'
import { teamSchema } from '../teams/team-schema.ts'
import { requireNamedTeam } from '../teams/usage-period.ts'
import { askedDays, presentDays, sendCsv } from './usage-answer.ts'

const bounds = { maxDays: { team: 366, person: 31 } }

export function getTeamUsageRoute(app: Api, { auth, usageCounter, budgets, clock }: RouteContext): void {
  app.get(
    '/teams/:teamID/usage',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Read what the team used by day, and what is left of its budget',
        params: TeamPath,
        querystring: UsageOfDaysQuery,
        response: { 200: UsageOfTeam, ...failures },
      },
    },
    async (request, reply) => {
      const { teamID } = requireNamedTeam(auth.teamOf(request), request.params.teamID)
      const asked = askedDays(request.query, clock.now(), bounds)
      const days = presentDays(await usageCounter.read(teamID, asked.from, asked.to), asked.byPerson)
      if (asked.isCsv) return sendCsv(reply, days, asked)
      return { from: asked.from, to: asked.to, days, budget: await budgets.report(teamID) }
    },
  )
}
