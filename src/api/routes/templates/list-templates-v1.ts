import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { Template, TemplatesQuery } from '../../../contract/rest/template.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTemplate } from '../../present-template.ts'
import { requireOwnTeam } from './own-team.ts'
import { templateSchema } from './template-schema.ts'

/** This list has no pages; a team with more templates needs the paged list. */
const longestList = 5000

export function listTemplatesV1Route(app: Api, context: RouteContext): void {
  app.get(
    '/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List the templates of the team',
        deprecated: true,
        querystring: Type.Pick(TemplatesQuery, ['teamID']),
        response: { 200: Type.Array(Template), ...failures },
      },
    },
    async (request) => {
      const team = requireOwnTeam(context.auth.teamOf(request), request.query.teamID)
      const all = await context.templates.list(team, { order: 'asc', limit: longestList + 1 })
      if (all.length > longestList) {
        throw new AppError(
          'invalid_argument',
          `More than ${longestList} templates: use /v2/templates, which has pages`,
        )
      }
      return all.map(presentTemplate)
    },
  )
}
