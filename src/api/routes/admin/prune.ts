import { PruneReport, PruneRequest } from '../../../contract/rest/prune.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { onEveryNode, totalOf } from '../../every-node.ts'
import { adminSchema } from './admin-schema.ts'

export function pruneRoute(app: Api, context: RouteContext): void {
  const { auth } = context
  app.post(
    '/admin/prune',
    {
      onRequest: auth.requireAdmin,
      config: { askedOfEveryNode: true },
      schema: {
        ...adminSchema,
        summary: 'Remove cached build steps, layers and uploaded files that nothing needs',
        body: PruneRequest,
        response: { 200: PruneReport, ...failures },
      },
    },
    async (request) => {
      const dryRun = request.body.dryRun ?? false
      const { parts, missing } = await onEveryNode(context, request, () => pruneNode(context, dryRun))
      return { ...sumOf(parts), dryRun, ...(missing.length > 0 && { missingNodes: missing }) }
    },
  )
}

async function pruneNode({ pruner, clock, log }: RouteContext, dryRun: boolean): Promise<PruneReport> {
  const freed = await pruner.run({ before: clock.now(), dryRun })
  const bytes = Object.values(freed).reduce((sum, one) => sum + one.bytes, 0)
  if (!dryRun) log.info({ ...freed, bytes }, 'the operator pruned caches and unused files')
  return { dryRun, ...freed, bytes }
}

function sumOf(parts: readonly PruneReport[]): Omit<PruneReport, 'dryRun'> {
  const total = (what: 'steps' | 'savedStates' | 'layers' | 'files') =>
    totalOf(parts.map((part) => part[what]))
  return {
    steps: total('steps'),
    savedStates: total('savedStates'),
    layers: total('layers'),
    files: total('files'),
    bytes: totalOf(parts.map(({ bytes }) => ({ bytes }))).bytes,
  }
}
