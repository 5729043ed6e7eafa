import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { Team } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTeam } from '../../present.ts'
import { adminSchema } from './admin-schema.ts'

export function listTeamsRoute(app: Api, { auth, teams }: RouteContext): void {
  app.get(
    '/admin/teams',
    {
      onRequest: auth.requireAdmin,
      schema: { ...adminSchema, summary: 'List teams', response: { 200: Type.Array(Team), ...failures } },
    },
    async () => (await teams.listTeams()).map(presentTeam),
  )
}
