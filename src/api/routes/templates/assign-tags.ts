import { failures } from '../../../contract/rest/shared.ts'
import { AssignedTags, AssignTags } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function assignTagsRoute(app: Api, context: RouteContext): void {
  app.post(
    '/templates/tags',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Assign tags to a build of a template',
        body: AssignTags,
        response: { 201: AssignedTags, ...failures },
      },
    },
    async (request, reply) => {
      const { target, tags } = request.body
      const assigned = await context.templates.assignTags(context.auth.teamOf(request), target, tags)
      return reply.code(201).send(assigned)
    },
  )
}
