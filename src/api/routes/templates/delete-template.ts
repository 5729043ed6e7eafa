import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function deleteTemplateRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Delete a template or a snapshot',
        params: TemplatePath,
        response: { 204: Empty, ...failures },
      },
    },
    async (request, reply) => {
      await context.remover.remove(context.auth.teamOf(request), request.params.templateID)
      return reply.code(204).send(null)
    },
  )
}
