import { failures } from '../../../contract/rest/shared.ts'
import { TeamPath } from '../../../contract/rest/team.ts'
import { BudgetAnswer, BudgetChanges } from '../../../contract/rest/usage.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from '../admin/admin-schema.ts'

export function changeTeamBudgetRoute(app: Api, { auth, teams, budgets }: RouteContext): void {
  app.patch(
    '/admin/teams/:teamID/budget',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: "Change a team's budget of a month; null removes a bound",
        params: TeamPath,
        body: BudgetChanges,
        response: { 200: BudgetAnswer, ...failures },
      },
    },
    async (request) => {
      const { teamID } = await teams.getTeam(request.params.teamID)
      return budgets.change(teamID, request.body)
    },
  )
}
