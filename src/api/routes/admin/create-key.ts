import { failures } from '../../../contract/rest/shared.ts'
import { CreatedApiKey, NewGrantedKey, TeamPath } from '../../../contract/rest/team.ts'
import { operatorGrant } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { wantedKey } from '../teams/wanted-key.ts'
import { adminSchema } from './admin-schema.ts'

export function createKeyRoute(app: Api, { auth, teams, clock }: RouteContext): void {
  app.post(
    '/admin/teams/:teamID/api-keys',
    {
      onRequest: auth.requireAdmin,
      schema: {
        ...adminSchema,
        summary: 'Create an API key; only this answer shows it',
        params: TeamPath,
        body: NewGrantedKey,
        response: { 201: CreatedApiKey, ...failures },
      },
    },
    async (request, reply) => {
      const wanted = wantedKey(request.body)
      const grant = operatorGrant(wanted, clock.now())
      const { key, record } = await teams.createKey(request.params.teamID, request.body.name, grant)
      return reply.code(201).send({ ...presentKey(record), key })
    },
  )
}
