import { failures } from '../../../contract/rest/shared.ts'
import { UsageOfDaysQuery, UsageOfTeams } from '../../../contract/rest/usage.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'
import { askedDays, presentDays, sendCsv } from './usage-answer.ts'

const bounds = { maxDays: { team: 31, person: 7 } }

export function getUsageOfTeamsRoute(app: Api, { auth, usageCounter, clock }: RouteContext): void {
  app.get(
    '/admin/usage',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Read what all teams used by day',
        querystring: UsageOfDaysQuery,
        response: { 200: UsageOfTeams, ...failures },
      },
    },
    async (request, reply) => {
      const asked = askedDays(request.query, clock.now(), bounds)
      const days = presentDays(await usageCounter.read(undefined, asked.from, asked.to), asked.byPerson)
      if (asked.isCsv) return sendCsv(reply, days, asked)
      return { from: asked.from, to: asked.to, days }
    },
  )
}
