import { failures } from '../../../contract/rest/shared.ts'
import { CreatedApiKey, NewGrantedKey } from '../../../contract/rest/team.ts'
import { grantFor } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { teamSchema } from './team-schema.ts'
import { wantedKey } from './wanted-key.ts'

export function createOwnKeyRoute(app: Api, { auth, teams, clock }: RouteContext): void {
  app.post(
    '/api-keys',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Create an API key of the team; only this answer shows it',
        body: NewGrantedKey,
        response: { 201: CreatedApiKey, ...failures },
      },
    },
    async (request, reply) => {
      const caller = auth.requiredCallerOf(request)
      const grant = grantFor(caller, wantedKey(request.body), clock.now())
      const { key, record } = await teams.createKey(caller.team.teamID, request.body.name, grant)
      return reply.code(201).send({ ...presentKey(record), key })
    },
  )
}
