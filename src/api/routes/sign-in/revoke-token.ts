import { Type } from 'typebox'
import { isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { recordedFor } from '../../record-changes.ts'

const Form = Type.Object({ token: Type.String({ maxLength: 200 }) })

/** Revoking an unknown or revoked token succeeds, as OAuth requires. */
export function revokeTokenRoute(app: Api, context: RouteContext): void {
  const { accessTokens } = context
  app.post('/oauth/revoke', { schema: { hide: true, body: Form } }, async (request, reply) => {
    try {
      const caller = await accessTokens.authenticate(request.body.token)
      const { id } = caller.credential
      await recordedFor(context, request, { caller, action: 'token.revoke', object: id }, () =>
        accessTokens.revoke(caller.team, id!),
      )
    } catch (error) {
      if (!isAppError(error, 'unauthenticated') && !isAppError(error, 'not_found')) throw error
    }
    return reply.code(200).send('')
  })
}
