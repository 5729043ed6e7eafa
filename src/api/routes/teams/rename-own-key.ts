import { Empty, failures } from '../../../contract/rest/shared.ts'
import { NewApiKey, OwnKeyPath } from '../../../contract/rest/team.ts'
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
      await teams.renameKey(auth.teamOf(request), request.params.keyID, request.body.name)
      return reply.code(200).send(undefined)
    },
  )
}
