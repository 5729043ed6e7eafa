import { failures } from '../../../contract/rest/shared.ts'
import { NewTemplateV2, TemplateLegacy } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentRequested, requestBuild } from './template-request.ts'
import { templateSchema } from './template-schema.ts'

export function requestTemplateV2Route(app: Api, context: RouteContext): void {
  app.post(
    '/v2/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Request a build of a template',
        deprecated: true,
        body: NewTemplateV2,
        response: { 202: TemplateLegacy, ...failures },
      },
    },
    async (request, reply) => {
      const team = context.auth.teamOf(request)
      const requested = await requestBuild(context, team, request.body.alias, [], request.body)
      return reply.code(202).send(await presentRequested(context, team, requested))
    },
  )
}
