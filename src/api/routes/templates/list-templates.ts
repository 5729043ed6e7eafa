import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { Template, TemplatesQuery } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../paging.ts'
import { presentTemplate } from '../../present-template.ts'
import { requireOwnTeam } from './own-team.ts'
import { templateSchema } from './template-schema.ts'

const defaultLimit = 100

export function listTemplatesRoute(app: Api, context: RouteContext): void {
  app.get(
    '/v2/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List the templates of the team, newest first, page by page',
        querystring: TemplatesQuery,
        response: { 200: Type.Array(Template), ...failures },
      },
    },
    async (request, reply) => {
      const { limit = defaultLimit, nextToken, teamID } = request.query
      const team = requireOwnTeam(context.auth.teamOf(request), teamID)
      const cursor = nextToken ? decodeCursor(nextToken, 'desc') : undefined
      const after = cursor && { after: { createdAt: cursor.at, templateID: cursor.id } }
      const rows = await context.templates.list(team, { order: 'desc', limit: limit + 1, ...after })
      const { page, last } = cutPage(rows, limit)
      if (last) {
        const { createdAt, templateID } = last.template
        reply.header(header.nextToken, encodeCursor({ at: createdAt, id: templateID }, 'desc'))
      }
      return page.map(presentTemplate)
    },
  )
}
