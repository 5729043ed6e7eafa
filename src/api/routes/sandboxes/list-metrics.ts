import { ManyMetrics, ManyMetricsQuery } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentMetric } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { sandboxSchema } from './sandbox-schema.ts'

const maxSandboxes = 100

export function listMetricsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/sandboxes/metrics',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'Read the newest metrics of many sandboxes',
        querystring: ManyMetricsQuery,
        response: { 200: ManyMetrics, ...failures },
      },
    },
    async (request) => {
      const given = [request.query.sandbox_ids].flat().flatMap((part) => part.split(','))
      const ids = [...new Set(given.filter((id) => id !== '').map(parseSandboxID))]
      if (ids.length > maxSandboxes) {
        throw new AppError('invalid_argument', `Too many sandboxes requested, maximum is ${maxSandboxes}`)
      }
      const own = await context.sandboxes.ownedBy(context.auth.teamOf(request), ids)
      const found = await context.metrics.latest(own)
      return { sandboxes: Object.fromEntries(found.map((one) => [one.sandboxID, presentMetric(one)])) }
    },
  )
}
