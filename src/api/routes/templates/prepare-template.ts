import { NewOnDemandTemplate, PreparedTemplate } from '../../../contract/rest/on-demand.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { checkedOnDemand } from './on-demand.ts'
import { sizesOf } from './template-request.ts'
import { templateSchema } from './template-schema.ts'

export function prepareTemplateRoute(app: Api, context: RouteContext): void {
  app.post(
    '/templates/on-demand',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Build a template of an image or of a size, unless there is one',
        body: NewOnDemandTemplate,
        response: { 200: PreparedTemplate, ...failures },
      },
    },
    async (request) => {
      const wanted = checkedOnDemand(context, request.body)
      const team = context.auth.teamOf(request)
      const { reference, build } = await context.onDemand.prepare(team, wanted, sizesOf(context.sizes, {}))
      const { templateID, buildID, status } = build
      return { reference, templateID, buildID, status }
    },
  )
}
