import { Empty, failures } from '../../../contract/rest/shared.ts'
import { TokenPath } from '../../../contract/rest/team.ts'
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
      await accessTokens.revoke(auth.teamOf(request), request.params.tokenID)
      return reply.code(204).send(null)
    },
  )
}
