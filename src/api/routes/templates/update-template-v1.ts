import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import { PatchTemplate } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function updateTemplateV1Route(app: Api, context: RouteContext): void {
  app.patch(
    '/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Make a template public or private; public ones also get their name without a namespace',
        deprecated: true,
        params: TemplatePath,
        body: PatchTemplate,
        response: { 200: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID } = request.params
      await context.templates.setPublic(context.auth.teamOf(request), templateID, request.body?.public, true)
      return reply.code(200).send(undefined)
    },
  )
}
