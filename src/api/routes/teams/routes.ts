import type { Api, RouteContext } from '../../context.ts'
import { createAccessTokenRoute } from './create-access-token.ts'
import { createOwnKeyRoute } from './create-own-key.ts'
import { getHighestTeamMetricRoute } from './get-highest-team-metric.ts'
import { getTeamMetricsRoute } from './get-team-metrics.ts'
import { listOwnKeysRoute } from './list-own-keys.ts'
import { listOwnTeamsRoute } from './list-own-teams.ts'
import { renameOwnKeyRoute } from './rename-own-key.ts'
import { revokeAccessTokenRoute } from './revoke-access-token.ts'
import { revokeOwnKeyRoute } from './revoke-own-key.ts'

/** Routes by which a team reads and changes itself. */
export function teamRoutes(app: Api, context: RouteContext): void {
  listOwnTeamsRoute(app, context)
  getTeamMetricsRoute(app, context)
  getHighestTeamMetricRoute(app, context)
  listOwnKeysRoute(app, context)
  createOwnKeyRoute(app, context)
  renameOwnKeyRoute(app, context)
  revokeOwnKeyRoute(app, context)
  createAccessTokenRoute(app, context)
  revokeAccessTokenRoute(app, context)
}
