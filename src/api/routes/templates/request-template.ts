import { failures } from '../../../contract/rest/shared.ts'
import { NewTemplate, RequestedTemplate } from '../../../contract/rest/template.ts'
import { fullName } from '../../../core/template/catalog.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { requestBuild } from './template-request.ts'
import { templateSchema } from './template-schema.ts'

export function requestTemplateRoute(app: Api, context: RouteContext): void {
  app.post(
    '/v3/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Request a build of a template',
        body: NewTemplate,
        response: { 202: RequestedTemplate, ...failures },
      },
    },
    async (request, reply) => {
      const { body } = request
      const name = body.name ?? body.alias
      if (name === undefined || name.trim() === '') throw new AppError('invalid_argument', 'Name is required')
      const team = context.auth.teamOf(request)
      const { template, build, names, tags } = await requestBuild(context, team, name, body.tags ?? [], body)
      return reply.code(202).send({
        templateID: template.templateID,
        buildID: build.buildID,
        public: template.public,
        names: names.map(fullName),
        tags,
        aliases: names.map(({ alias }) => alias),
      })
    },
  )
}
