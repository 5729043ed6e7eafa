import { failures } from '../../../contract/rest/shared.ts'
import { CreatedApiKey, NewApiKey, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function createKeyRoute(app: Api, { auth, teams }: RouteContext): void {
  app.post(
    '/admin/teams/:teamID/api-keys',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Create an API key; only this answer shows it',
        params: TeamPath,
        body: NewApiKey,
        response: { 201: CreatedApiKey, ...failures },
      },
    },
    async (request, reply) => {
      const { key, record } = await teams.createKey(request.params.teamID, request.body.name)
      return reply.code(201).send({ ...presentKey(record), key })
    },
  )
}
