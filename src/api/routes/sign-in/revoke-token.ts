import { Type } from 'typebox'
import { isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'

const Form = Type.Object({ token: Type.String({ maxLength: 200 }) })

/** Revoking an unknown or revoked token succeeds, as OAuth requires. */
export function revokeTokenRoute(app: Api, { accessTokens }: RouteContext): void {
  app.post('/oauth/revoke', { schema: { hide: true, body: Form } }, async (request, reply) => {
    try {
      const { team, credential } = await accessTokens.authenticate(request.body.token)
      await accessTokens.revoke(team, credential.id!)
    } catch (error) {
      if (!isAppError(error, 'unauthenticated') && !isAppError(error, 'not_found')) throw error
    }
    return reply.code(200).send('')
  })
}
