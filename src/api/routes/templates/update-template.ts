import { TemplatePath } from '../../../contract/rest/lifecycle.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { Names, PatchTemplate } from '../../../contract/rest/template.ts'
import { fullName } from '../../../core/template/catalog.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function updateTemplateRoute(app: Api, context: RouteContext): void {
  app.patch(
    '/v2/templates/:templateID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Make a template public or private',
        params: TemplatePath,
        body: PatchTemplate,
        response: { 200: Names, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const team = context.auth.teamOf(request)
      const names = await context.templates.setPublic(team, templateID, request.body?.public, false)
      return { names: names.map(fullName) }
    },
  )
}
