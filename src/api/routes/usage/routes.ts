import type { Api, RouteContext } from '../../context.ts'
import { changeTeamBudgetRoute } from './change-team-budget.ts'
import { getTeamUsageRoute } from './get-team-usage.ts'
import { getUsageOfTeamsRoute } from './get-usage-of-teams.ts'

/** What teams used, and what they may use. */
export function usageRoutes(app: Api, context: RouteContext): void {
  getTeamUsageRoute(app, context)
  getUsageOfTeamsRoute(app, context)
  changeTeamBudgetRoute(app, context)
}
