import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { ApiKey, TeamPath } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function listKeysRoute(app: Api, { auth, teams }: RouteContext): void {
  app.get(
    '/admin/teams/:teamID/api-keys',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'List live API keys',
        params: TeamPath,
        response: { 200: Type.Array(ApiKey), ...failures },
      },
    },
    async (request) => (await teams.listKeys(request.params.teamID)).map(presentKey),
  )
}
