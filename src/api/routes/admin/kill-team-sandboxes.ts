import { failures } from '../../../contract/rest/shared.ts'
import { KillReport, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { onEveryNodeUntilNoneLeft, totalOf } from '../../every-node.ts'
import { adminSchema } from './admin-schema.ts'

export function killTeamSandboxesRoute(app: Api, context: RouteContext): void {
  const { auth, teams, teamRemover } = context
  app.post(
    '/admin/teams/:teamID/sandboxes/kill',
    {
      onRequest: auth.requireAdmin,
      config: { askedOfEveryNode: true },
      schema: {
        ...adminSchema,
        summary: 'Kill every sandbox of a team, paused ones included',
        params: TeamPath,
        response: { 200: KillReport, ...failures },
      },
    },
    async (request) => {
      const team = await teams.getTeam(request.params.teamID)
      const kill = () => teamRemover.killSandboxes(team)
      const rounds = await onEveryNodeUntilNoneLeft(context, request, team, kill)
      const { parts, missing } = rounds.at(-1)!
      const { sandboxes } = await teamRemover.leftOn(team, missing)
      const { killedCount } = totalOf(rounds.flatMap((round) => round.parts))
      return { killedCount, failedCount: totalOf(parts).failedCount + sandboxes }
    },
  )
}
