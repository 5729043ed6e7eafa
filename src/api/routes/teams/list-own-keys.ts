import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { ApiKey } from '../../../contract/rest/team.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentKey } from '../../present.ts'
import { teamSchema } from './team-schema.ts'

export function listOwnKeysRoute(app: Api, { auth, teams }: RouteContext): void {
  app.get(
    '/api-keys',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: "List the team's live API keys",
        response: { 200: Type.Array(ApiKey), ...failures },
      },
    },
    async (request) => (await teams.listLiveKeys(auth.teamOf(request).teamID)).map(presentKey),
  )
}
