import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { TagList } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dateTime } from '../../present.ts'
import { templateSchema } from './template-schema.ts'

export function listTagsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/tags',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List the tags of a template',
        params: Type.Object({ templateID: Type.String() }),
        response: { 200: TagList, ...failures },
      },
    },
    async (request) => {
      const tags = await context.templates.listTags(context.auth.teamOf(request), request.params.templateID)
      return tags.map(({ tag, buildID, assignedAt }) => ({ tag, buildID, createdAt: dateTime(assignedAt) }))
    },
  )
}
