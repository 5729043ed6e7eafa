import type { Api, RouteContext } from '../../context.ts'
import { forgetNodeRoute } from './forget-node.ts'
import { getNodeRoute } from './get-node.ts'
import { listNodesRoute } from './list-nodes.ts'
import { setNodeStatusRoute } from './set-node-status.ts'

export function nodeRoutes(app: Api, context: RouteContext): void {
  listNodesRoute(app, context)
  getNodeRoute(app, context)
  setNodeStatusRoute(app, context)
  forgetNodeRoute(app, context)
}
