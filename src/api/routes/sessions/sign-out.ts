import { SignedOut } from '../../../contract/rest/session.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { sessionSchema } from './session-schema.ts'

export function signOutRoute(app: Api, { signIn, auth }: RouteContext): void {
  app.post(
    '/sign-out',
    {
      onRequest: auth.requireSession,
      schema: {
        ...sessionSchema,
        summary: 'End the session of the request',
        response: { 200: SignedOut, ...failures },
      },
    },
    async (request, reply) => {
      const { person, session } = auth.signedInOf(request)
      signIn?.cookies.clearSession(reply)
      const location = await signIn?.service.signOut(person, session.sessionID)
      return location === undefined ? {} : { location }
    },
  )
}
