import { Type } from 'typebox'
import {
  ManyMetrics,
  ManyMetricsQuery,
  MetricsQuery,
  SandboxMetric,
  SandboxPath,
} from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentMetric } from '../../present.ts'
import { parseSandboxID } from '../../sandbox-id.ts'

const mostSandboxes = 100
const latest = Number.MAX_SAFE_INTEGER

export function sandboxMetricsRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['sandboxes'], security: [{ ApiKeyAuth: [] }] }

  app.get(
    '/sandboxes/metrics',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'The newest metrics of many sandboxes',
        querystring: ManyMetricsQuery,
        response: { 200: ManyMetrics, ...failures },
      },
    },
    async (request) => {
      const given = [request.query.sandbox_ids].flat().flatMap((part) => part.split(','))
      const ids = [...new Set(given.filter((id) => id !== '').map(parseSandboxID))]
      if (ids.length > mostSandboxes) {
        throw new AppError('invalid_argument', `Too many sandboxes requested, maximum is ${mostSandboxes}`)
      }
      const own = await context.sandboxes.ownedBy(context.auth.teamOf(request), ids)
      const found = await context.metrics.latest(own)
      return { sandboxes: Object.fromEntries(found.map((one) => [one.sandboxID, presentMetric(one)])) }
    },
  )

  app.get(
    '/sandboxes/:sandboxID/metrics',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'The metrics of a sandbox over time',
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
