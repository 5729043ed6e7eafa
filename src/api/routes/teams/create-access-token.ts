import { failures } from '../../../contract/rest/shared.ts'
import { CreatedAccessToken, NewGrantedKey } from '../../../contract/rest/team.ts'
import { grantFor } from '../../../core/team/key-grants.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime, presentMask } from '../../present.ts'
import { teamSchema } from './team-schema.ts'
import { wantedKey } from './wanted-key.ts'

export function createAccessTokenRoute(app: Api, { auth, accessTokens, clock }: RouteContext): void {
  app.post(
    '/access-tokens',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Create an access token of the team; only this answer shows it',
        body: NewGrantedKey,
        response: { 201: CreatedAccessToken, ...failures },
      },
    },
    async (request, reply) => {
      const caller = auth.requiredCallerOf(request)
      const grant = grantFor(caller, wantedKey(request.body), clock.now())
      const { token, record } = await accessTokens.create(caller.team, request.body.name, grant)
      const { tokenID: id, name, createdAt } = record
      const mask = presentMask('sk_e2b_', record)
      return reply.code(201).send({ id, name, token, mask, createdAt: dateTime(createdAt) })
    },
  )
}
