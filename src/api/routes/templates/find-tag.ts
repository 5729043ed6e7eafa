import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { TagExistence, TagQuery } from '../../../contract/rest/tag-history.ts'
import { parseTag } from '../../../core/template/reference.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function findTagRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/tags/exists',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Ask whether a tag of a template has a ready build',
        params: TemplatePath,
        querystring: TagQuery,
        response: { 200: TagExistence, ...failures },
      },
    },
    async (request) => {
      const normalizedTag = parseTag(request.query.tag)
      const team = context.auth.teamOf(request)
      const { templateID } = request.params
      const found = await context.templates.listReadyAssignments(team, templateID, normalizedTag)
      return { exists: found.length > 0, normalizedTag }
    },
  )
}
