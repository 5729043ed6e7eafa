import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { TagCount } from '../../../contract/rest/tag-history.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function countTagsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/tags/count',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Count the tags of a template that have a ready build',
        params: TemplatePath,
        response: { 200: TagCount, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const found = await context.templates.listReadyAssignments(context.auth.teamOf(request), templateID)
      return { total: new Set(found.map(({ tag }) => tag)).size }
    },
  )
}
