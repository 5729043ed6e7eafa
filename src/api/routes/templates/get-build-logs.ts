import { failures } from '../../../contract/rest/shared.ts'
import { BuildLogs, BuildLogsQuery, BuildPath } from '../../../contract/rest/template.ts'
import { atLeast } from '../../../core/ports/logs.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentLine } from '../../present-template.ts'
import { parseBuildID } from './build-id.ts'
import { templateSchema } from './template-schema.ts'

const defaultLimit = 100

export function getBuildLogsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/builds/:buildID/logs',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Read the log of a build, from a time on or before it',
        params: BuildPath,
        querystring: BuildLogsQuery,
        response: { 200: BuildLogs, ...failures },
      },
    },
    async (request) => {
      const buildID = parseBuildID(request.params.buildID, 'Invalid build id')
      const { cursor, limit = defaultLimit, direction = 'forward', level } = request.query
      const team = context.auth.teamOf(request)
      const { entries } = await context.builds.status(team, request.params.templateID, buildID)
      const all = atLeast(entries, level)
      const found =
        direction === 'forward'
          ? all.filter(({ at }) => at >= (cursor ?? 0))
          : all.filter(({ at }) => at < (cursor ?? Number.MAX_SAFE_INTEGER)).reverse()
      return { logs: found.slice(0, limit).map(presentLine) }
    },
  )
}
