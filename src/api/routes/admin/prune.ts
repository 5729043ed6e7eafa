import { PruneReport, PruneRequest } from '../../../contract/rest/prune.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function pruneRoute(app: Api, { auth, pruner, clock, log }: RouteContext): void {
  app.post(
    '/admin/prune',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Remove cached build steps, layers and uploaded files that nothing needs',
        body: PruneRequest,
        response: { 200: PruneReport, ...failures },
      },
    },
    async (request) => {
      const dryRun = request.body.dryRun ?? false
      const freed = await pruner.run({ before: clock.now(), dryRun })
      const bytes = Object.values(freed).reduce((sum, one) => sum + one.bytes, 0)
      if (!dryRun) log.info({ ...freed, bytes }, 'the operator pruned caches and unused files')
      return { dryRun, ...freed, bytes }
    },
  )
}
