import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { NewTemplateV1 } from '../../../contract/rest/template.ts'
import { defaultTag } from '../../../core/template/reference.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { dockerfileSchema, requestFromDockerfile } from './dockerfile-request.ts'

export function rebuildTemplateV1Route(app: Api, context: RouteContext): void {
  app.post(
    '/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...dockerfileSchema,
        summary: 'Request another build of a template, from a Dockerfile',
        params: TemplatePath,
        body: NewTemplateV1,
      },
    },
    async (request, reply) => {
      const { alias } = request.body
      const team = context.auth.teamOf(request)
      const { summary } = await context.templates.read(team, request.params.templateID, { limit: 1 })
      const { templateID } = summary.template
      if (alias !== undefined && !summary.names.some((name) => name.alias === alias.trim().toLowerCase())) {
        const why = `Template '${templateID}' is not called '${alias.slice(0, 128)}'; another build keeps its names`
        throw new AppError('invalid_argument', why)
      }
      const wanted = { target: { templateID }, tags: [defaultTag] }
      return reply.code(202).send(await requestFromDockerfile(context, team, wanted, request.body))
    },
  )
}
