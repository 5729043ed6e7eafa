import { NodeDetail, NodePath } from '../../../contract/rest/node.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'
import { presentNodeDetail } from './present-node.ts'

export function getNodeRoute(app: Api, { auth, nodes }: RouteContext): void {
  app.get(
    '/nodes/:nodeID',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Read a machine of the cluster',
        params: NodePath,
        response: { 200: NodeDetail, ...failures },
      },
    },
    async (request) => {
      const node = await nodes.get(request.params.nodeID)
      return presentNodeDetail(node, await nodes.cachedBuilds(node))
    },
  )
}
