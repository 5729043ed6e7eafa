import { Type } from 'typebox'
import { isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'

const Form = Type.Object({ refresh_token: Type.String({ maxLength: 200 }) })

/** A token is valid until it is revoked, so a refresh returns the same token. */
export function refreshTokenRoute(app: Api, { accessTokens }: RouteContext): void {
  app.post('/oauth/token', { schema: { hide: true, body: Form } }, async (request, reply) => {
    const token = request.body.refresh_token
    try {
      await accessTokens.authenticate(token)
    } catch (error) {
      if (!isAppError(error, 'unauthenticated')) throw error
      return reply.code(400).send({ error: 'invalid_grant', error_description: error.message })
    }
    return { access_token: token, refresh_token: token, token_type: 'Bearer' }
  })
}
