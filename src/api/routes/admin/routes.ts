import type { Api, RouteContext } from '../../context.ts'
import { keyRoutes } from './keys.ts'
import { pruneRoute } from './prune.ts'
import { teamRoutes } from './teams.ts'

/** The operator's surface: what the command line speaks. */
export function adminRoutes(app: Api, context: RouteContext): void {
  teamRoutes(app, context)
  keyRoutes(app, context)
  pruneRoute(app, context)
}
