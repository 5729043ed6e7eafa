import { ForgottenNode, NodePath } from '../../../contract/rest/node.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'

export function forgetNodeRoute(app: Api, { auth, nodes }: RouteContext): void {
  app.delete(
    '/admin/nodes/:nodeID',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Forget a machine that does not come back, with everything that only its disk had',
        params: NodePath,
        response: { 200: ForgottenNode, ...failures },
      },
    },
    (request) => nodes.forget(request.params.nodeID),
  )
}
