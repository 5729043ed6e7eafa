import { failures } from '../../../contract/rest/shared.ts'
import { NewTemplateV2, TemplateLegacy } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTemplate } from '../../present-template.ts'
import { requestBuild } from './template-request.ts'
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
      const { template, build } = await requestBuild(context, team, request.body.alias, [], request.body)
      const { summary } = await context.templates.read(team, template.templateID, { limit: 1 })
      const { cpuCount, memoryMB, diskMB, envdVersion, buildID } = build
      const { names: _names, buildStatus: _status, ...shown } = presentTemplate(summary)
      const own = { cpuCount, memoryMB, diskSizeMB: diskMB, envdVersion, buildID }
      return reply.code(202).send({ ...shown, ...own })
    },
  )
}
