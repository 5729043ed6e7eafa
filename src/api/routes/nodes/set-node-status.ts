import { NodePath, NodeStatusChange } from '../../../contract/rest/node.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'

export function setNodeStatusRoute(app: Api, { auth, nodes }: RouteContext): void {
  app.post(
    '/nodes/:nodeID',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Drain a machine of the cluster, or let it take sandboxes again',
        params: NodePath,
        body: NodeStatusChange,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { status } = request.body
      if (status !== 'ready' && status !== 'draining') {
        throw new AppError(
          'conflict',
          `A node cannot be made '${status}': it can be set to ready or draining.`,
        )
      }
      await nodes.setStatus(request.params.nodeID, status)
      return reply.code(204).send(null)
    },
  )
}
