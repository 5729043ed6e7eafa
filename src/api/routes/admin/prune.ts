import { PruneReport, PruneRequest } from '../../../contract/rest/prune.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'

export function pruneRoute(app: Api, { auth, pruner, clock, log }: RouteContext): void {
  app.post(
    '/admin/prune',
    {
      onRequest: auth.requireAdmin,
      schema: {
        summary: 'Remove cached build steps, layers and uploaded files that nothing needs',
        tags: ['admin'],
        security: [{ AdminApiKeyAuth: [] }],
        body: PruneRequest,
        response: { 200: PruneReport, ...failures },
      },
    },
    async (request) => {
      const dryRun = request.body.dryRun ?? false
      const freed = await pruner.run({ before: clock.now(), dryRun })
      const bytes = Object.values(freed).reduce((sum, one) => sum + one.bytes, 0)
      if (!dryRun) log.info({ ...freed, bytes }, 'pruned at the wish of the operator')
      return { dryRun, ...freed, bytes }
    },
  )
}
