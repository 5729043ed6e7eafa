import { Empty, failures } from '../../../contract/rest/shared.ts'
import { OwnKeyPath } from '../../../contract/rest/team.ts'
import { scopeOf } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { teamSchema } from './team-schema.ts'

export function revokeOwnKeyRoute(app: Api, { auth, teams }: RouteContext): void {
  app.delete(
    '/api-keys/:keyID',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Revoke an API key of the team, effective on the next request',
        params: OwnKeyPath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const caller = auth.requiredCallerOf(request)
      await teams.revokeKey(caller.team.teamID, request.params.keyID, scopeOf(caller))
      return reply.code(204).send(null)
    },
  )
}
