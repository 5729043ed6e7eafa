import { Type } from 'typebox'
import { MetricsQuery, SandboxMetric, SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentMetric } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

const latest = Number.MAX_SAFE_INTEGER

export function getSandboxMetricsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/sandboxes/:sandboxID/metrics',
    {
      onRequest: context.auth.requireTeam,
      config: { answeredByAny: true },
      schema: {
        ...sandboxSchema,
        summary: 'Read the metrics of a sandbox over time',
        params: SandboxPath,
        querystring: MetricsQuery,
        response: { 200: Type.Array(SandboxMetric), ...failures },
      },
    },
    async (request) => {
      const { start = 0, end } = request.query
      if (end !== undefined && start > end) {
        throw new AppError('invalid_argument', 'start must not be later than end')
      }
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const [own] = await context.sandboxes.ownedBy(context.auth.teamOf(request), [sandboxID])
      if (own === undefined) return []
      const last = end === undefined ? latest : Math.min(end * 1000 + 999, latest)
      return (await context.metrics.range(own, Math.min(start * 1000, latest), last)).map(presentMetric)
    },
  )
}
