import { Type } from 'typebox'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import { ApiKey, CreatedApiKey, KeyPath, NewApiKey, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'

export function keyRoutes(app: Api, { auth, teams }: RouteContext): void {
  const onRequest = auth.requireAdmin
  const schema = { tags: ['admin'], security: [{ AdminApiKeyAuth: [] }], params: TeamPath }

  app.post(
    '/admin/teams/:teamID/api-keys',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Make an API key; the answer is the only place that shows it',
        body: NewApiKey,
        response: { 201: CreatedApiKey, ...failures },
      },
    },
    async (request, reply) => {
      const { key, record } = await teams.createKey(request.params.teamID, request.body.name)
      return reply.code(201).send({ ...presentKey(record), key })
    },
  )

  app.get(
    '/admin/teams/:teamID/api-keys',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'List live API keys',
        response: { 200: Type.Array(ApiKey), ...failures },
      },
    },
    async (request) => (await teams.listKeys(request.params.teamID)).map(presentKey),
  )

  app.delete(
    '/admin/teams/:teamID/api-keys/:keyID',
    {
      onRequest,
      schema: {
        ...schema,
        summary: 'Revoke an API key, effective on the next request',
        params: KeyPath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      await teams.revokeKey(request.params.teamID, request.params.keyID)
      return reply.code(204).send(null)
    },
  )
}
