import { Empty, failures } from '../../../contract/rest/shared.ts'
import { RemoveTags } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function removeTagsRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/templates/tags',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Remove tags from a template',
        body: RemoveTags,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { name, tags } = request.body
      await context.templates.removeTags(context.auth.teamOf(request), name, tags)
      return reply.code(204).send(null)
    },
  )
}
