import { Empty, failures } from '../../../contract/rest/shared.ts'
import { BuildPath } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseBuildID } from './build-id.ts'
import { templateSchema } from './template-schema.ts'

export function startBuildV1Route(app: Api, context: RouteContext): void {
  app.post(
    '/templates/:templateID/builds/:buildID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Start a build that was requested with a Dockerfile',
        deprecated: true,
        params: BuildPath,
        response: { 202: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID } = request.params
      const buildID = parseBuildID(request.params.buildID, 'Invalid build ID')
      await context.builds.start(context.auth.teamOf(request), templateID, buildID)
      return reply.code(202).send(undefined)
    },
  )
}
