import { failures } from '../../../contract/rest/shared.ts'
import { AliasAnswer, AliasPath } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { templateSchema } from './template-schema.ts'

export function getAliasRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/aliases/:alias',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Find out whether a name is taken, and by which template',
        params: AliasPath,
        response: { 200: AliasAnswer, ...failures },
      },
    },
    async (request) => {
      const found = await context.templates.lookUp(context.auth.teamOf(request), request.params.alias)
      return { templateID: found.templateID, public: found.public }
    },
  )
}
