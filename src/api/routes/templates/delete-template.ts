import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'

export function deleteTemplateRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        summary: 'Delete a template or a snapshot',
        tags: ['templates'],
        security: [{ ApiKeyAuth: [] }],
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
