import { Empty, failures } from '../../../contract/rest/shared.ts'
import { KeyPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function revokeKeyRoute(app: Api, { auth, teams }: RouteContext): void {
  app.delete(
    '/admin/teams/:teamID/api-keys/:keyID',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
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
