import { WhoIAm } from '../../../contract/rest/session.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { sessionSchema } from './session-schema.ts'

/** An operator's list has all teams. */
export function getMeRoute(app: Api, { auth, people, teams }: RouteContext): void {
  app.get(
    '/me',
    {
      onRequest: auth.requireSession,
      schema: {
        ...sessionSchema,
        summary: 'Who is signed in, and in which teams',
        response: { 200: WhoIAm, ...failures },
      },
    },
    async (request) => {
      const { person, session } = auth.signedInOf(request)
      const roles = new Map(
        (await people.rolesOf(person.personID)).map(({ teamID, role }) => [teamID, role] as const),
      )
      const all = await teams.listTeams()
      const seen = all.flatMap(({ teamID, slug, name, limits }) => {
        const role = person.isOperator ? 'owner' : roles.get(teamID)
        return role === undefined ? [] : [{ teamID, slug, name, role, limits }]
      })
      const { personID, name, email, isOperator } = person
      return { person: { personID, name, email, isOperator }, sessionID: session.sessionID, teams: seen }
    },
  )
}
