import { header } from '../../../contract/constants.ts'
import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { PageQuery, TemplateWithBuilds } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor } from '../../paging.ts'
import { presentBuild, presentTemplate } from '../../present-template.ts'
import { templateSchema } from './template-schema.ts'

const defaultLimit = 100

export function getTemplateRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Read a template with its builds, newest first, page by page',
        params: TemplatePath,
        querystring: PageQuery,
        response: { 200: TemplateWithBuilds, ...failures },
      },
    },
    async (request, reply) => {
      const { limit = defaultLimit, nextToken } = request.query
      const cursor = nextToken ? decodeCursor(nextToken, 'desc') : undefined
      const after = cursor && { after: { createdAt: cursor.at, buildID: cursor.id } }
      const { summary, builds } = await context.templates.read(
        context.auth.teamOf(request),
        request.params.templateID,
        { limit: limit + 1, ...after },
      )
      const { page, last } = cutPage(builds, limit)
      if (last) reply.header(header.nextToken, encodeCursor({ at: last.createdAt, id: last.buildID }, 'desc'))
      return { ...presentTemplate(summary), builds: page.map(presentBuild) }
    },
  )
}
