import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { ApiKey } from '../../../contract/rest/team.ts'
import { isInScope, scopeOf } from '../../../core/team/key-grants.ts'
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
        summary: "List the team's live API keys: all of them for an owner, and one's own for others",
        response: { 200: Type.Array(ApiKey), ...failures },
      },
    },
    async (request) => {
      const caller = auth.requiredCallerOf(request)
      const keys = await teams.listLiveKeys(caller.team.teamID)
      const scope = scopeOf(caller)
      return keys.filter((key) => isInScope(key, scope)).map(presentKey)
    },
  )
}
