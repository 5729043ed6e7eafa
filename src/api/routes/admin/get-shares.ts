import { failures } from '../../../contract/rest/shared.ts'
import { type NodeShares, SharesReport } from '../../../contract/rest/shares.ts'
import type { Api, RouteContext } from '../../context.ts'
import { onEveryNode } from '../../every-node.ts'
import { adminSchema } from './admin-schema.ts'

export function getSharesRoute(app: Api, context: RouteContext): void {
  const { auth, describeShares } = context
  app.get(
    '/admin/shares',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Read what each team uses of memory and disk, its fair share, and what the guards did',
        response: { 200: SharesReport, ...failures },
      },
    },
    async (request) => {
      const { parts, missing } = await onEveryNode(context, request, async (): Promise<SharesReport> => {
        const own: NodeShares = await describeShares()
        return { nodes: [own] }
      })
      return {
        nodes: parts.flatMap(({ nodes }) => nodes),
        ...(missing.length > 0 && { missingNodes: missing }),
      }
    },
  )
}
