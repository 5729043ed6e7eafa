import { failures } from '../../../contract/rest/shared.ts'
import { CreatedAccessToken, NewApiKey } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime, presentMask } from '../../present.ts'
import { teamSchema } from './team-schema.ts'

export function createAccessTokenRoute(app: Api, { auth, accessTokens }: RouteContext): void {
  app.post(
    '/access-tokens',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'Create an access token of the team; only this answer shows it',
        body: NewApiKey,
        response: { 201: CreatedAccessToken, ...failures },
      },
    },
    async (request, reply) => {
      const { token, record } = await accessTokens.create(auth.teamOf(request), request.body.name)
      const { tokenID: id, name, createdAt } = record
      const mask = presentMask('sk_e2b_', record)
      return reply.code(201).send({ id, name, token, mask, createdAt: dateTime(createdAt) })
    },
  )
}
