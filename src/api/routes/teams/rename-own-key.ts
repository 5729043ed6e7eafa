import { Empty, failures } from '../../../contract/rest/shared.ts'
import { NewApiKey, OwnKeyPath } from '../../../contract/rest/team.ts'
import { scopeOf } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { teamSchema } from './team-schema.ts'

export function renameOwnKeyRoute(app: Api, { auth, teams }: RouteContext): void {
  app.patch(
    '/api-keys/:keyID',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Rename an API key of the team',
        params: OwnKeyPath,
        body: NewApiKey,
        response: { 200: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const caller = auth.requiredCallerOf(request)
      await teams.renameKey(caller.team, request.params.keyID, request.body.name, scopeOf(caller))
      return reply.code(200).send(undefined)
    },
  )
}
