import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { OwnTeam } from '../../../contract/rest/team.ts'
import { apiKeyOf } from '../../../core/team/team.ts'
import { AppError } from '../../../lib/app-error.ts'
import { bearerToken, textHeader } from '../../auth.ts'
import type { Api, RouteContext } from '../../context.ts'
import { teamSchema } from './team-schema.ts'

/** The command line signs in with an access token, and stores the API key in this answer. */
export function listOwnTeamsRoute(app: Api, { auth }: RouteContext): void {
  app.get(
    '/teams',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...teamSchema,
        summary: 'List the teams of the caller, with an API key of each',
        response: { 200: Type.Array(OwnTeam), ...failures },
      },
    },
    async (request) => {
      const { team, role } = auth.requiredCallerOf(request)
      const { teamID, name, slug, limits } = team
      const token = bearerToken(request)
      const apiKey = textHeader(request, header.apiKey) ?? (token === undefined ? undefined : apiKeyOf(token))
      if (apiKey !== undefined) return [{ teamID, name, apiKey, isDefault: true, slug, limits, role }]
      throw new AppError(
        'invalid_argument',
        'The admin token has no API key: use an access token, or list all teams at /admin/teams',
      )
    },
  )
}
