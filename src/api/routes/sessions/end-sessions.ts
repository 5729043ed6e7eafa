import { Type } from 'typebox'
import { WhoseSessions } from '../../../contract/rest/session.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { isAppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { sessionSchema } from './session-schema.ts'
import { requireMaySee } from './whose-sessions.ts'

/** The session of the request stays: signing out ends it. */
export function endSessionsRoute(app: Api, context: RouteContext): void {
  const { auth, signIn } = context
  app.delete(
    '/sessions',
    {
      onRequest: auth.requireSession,
      schema: {
        ...sessionSchema,
        summary: 'End all sessions of a person but the one of the request',
        querystring: WhoseSessions,
        response: { 204: Type.Null(), ...failures },
      },
    },
    async (request, reply) => {
      const personID = await requireMaySee(context, request, request.query.personID)
      const current = auth.signedInOf(request).session.sessionID
      for (const { sessionID } of (await signIn?.sessions.list(personID)) ?? []) {
        if (sessionID === current) continue
        await signIn?.sessions.end(personID, sessionID).catch((error) => {
          if (!isAppError(error, 'not_found')) throw error
        })
      }
      return reply.code(204).send(null)
    },
  )
}
