import { Type } from 'typebox'
import { Node } from '../../../contract/rest/node.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'
import { presentNode } from './present-node.ts'

export function listNodesRoute(app: Api, { auth, nodes }: RouteContext): void {
  app.get(
    '/nodes',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'List the machines of the cluster',
        response: { 200: Type.Array(Node), ...failures },
      },
    },
    async () => (await nodes.list()).map(presentNode),
  )
}
