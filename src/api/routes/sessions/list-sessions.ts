import { Type } from 'typebox'
import { OpenSession, WhoseSessions } from '../../../contract/rest/session.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { sessionSchema } from './session-schema.ts'
import { requireMaySee } from './whose-sessions.ts'

const iso = (at: number): string => new Date(at).toISOString()

export function listSessionsRoute(app: Api, context: RouteContext): void {
  const { auth, signIn } = context
  app.get(
    '/sessions',
    {
      onRequest: auth.requireSession,
      schema: {
        ...sessionSchema,
        summary: 'List open sessions of a person',
        querystring: WhoseSessions,
        response: { 200: Type.Array(OpenSession), ...failures },
      },
    },
    async (request) => {
      const personID = await requireMaySee(context, request, request.query.personID)
      const current = auth.signedInOf(request).session.sessionID
      const found = (await signIn?.sessions.list(personID)) ?? []
      return found.map(({ sessionID, createdAt, lastUsedAt, expiresAt, userAgent, address }) => ({
        sessionID,
        createdAt: iso(createdAt),
        lastUsedAt: iso(lastUsedAt),
        expiresAt: iso(expiresAt),
        userAgent,
        address,
        isCurrent: sessionID === current,
      }))
    },
  )
}
