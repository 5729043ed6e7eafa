import { Empty, failures } from '../../../contract/rest/shared.ts'
import { TokenPath } from '../../../contract/rest/team.ts'
import { scopeOf } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { teamSchema } from './team-schema.ts'

export function revokeAccessTokenRoute(app: Api, { auth, accessTokens }: RouteContext): void {
  app.delete(
    '/access-tokens/:tokenID',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Revoke an access token and its API key',
        params: TokenPath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const caller = auth.requiredCallerOf(request)
      await accessTokens.revoke(caller.team, request.params.tokenID, scopeOf(caller))
      return reply.code(204).send(null)
    },
  )
}
