import { failures } from '../../../contract/rest/shared.ts'
import { BuildPath, BuildStatusAnswer, StatusQuery } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentProgress } from '../../present-template.ts'
import { parseBuildID } from './build-id.ts'
import { templateSchema } from './template-schema.ts'

export function getBuildStatusRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/builds/:buildID/status',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Read the status of a build, and its log lines from an offset on',
        params: BuildPath,
        querystring: StatusQuery,
        response: { 200: BuildStatusAnswer, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const buildID = parseBuildID(request.params.buildID, 'Invalid build id')
      const team = context.auth.teamOf(request)
      return presentProgress(await context.builds.status(team, templateID, buildID), request.query)
    },
  )
}
