import { Type } from 'typebox'
import { SessionPath, WhoseSessions } from '../../../contract/rest/session.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { sessionSchema } from './session-schema.ts'
import { requireMaySee } from './whose-sessions.ts'

export function endSessionRoute(app: Api, context: RouteContext): void {
  const { auth, signIn } = context
  app.delete(
    '/sessions/:sessionID',
    {
      onRequest: auth.requireSession,
      schema: {
        ...sessionSchema,
        summary: 'End a session',
        params: SessionPath,
        querystring: WhoseSessions,
        response: { 204: Type.Null(), ...failures },
      },
    },
    async (request, reply) => {
      const personID = await requireMaySee(context, request, request.query.personID)
      await signIn?.sessions.end(personID, request.params.sessionID)
      return reply.code(204).send(null)
    },
  )
}
