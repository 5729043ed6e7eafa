import { failures } from '../../../contract/rest/shared.ts'
import { CreatedApiKey, NewApiKey } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { teamSchema } from './team-schema.ts'

export function createOwnKeyRoute(app: Api, { auth, teams }: RouteContext): void {
  app.post(
    '/api-keys',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Create an API key of the team; only this answer shows it',
        body: NewApiKey,
        response: { 201: CreatedApiKey, ...failures },
      },
    },
    async (request, reply) => {
      const { key, record } = await teams.createKey(auth.teamOf(request).teamID, request.body.name)
      return reply.code(201).send({ ...presentKey(record), key })
    },
  )
}
