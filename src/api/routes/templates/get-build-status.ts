import { failures } from '../../../contract/rest/shared.ts'
import { BuildPath, BuildStatusAnswer, StatusQuery } from '../../../contract/rest/template.ts'
import { atLeast } from '../../../core/logs.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentLine } from '../../present-template.ts'
import { parseBuildID } from './build-id.ts'
import { templateSchema } from './template-schema.ts'

const defaultLimit = 100

export function getBuildStatusRoute(app: Api, context: RouteContext): void {
  app.get(
    '/templates/:templateID/builds/:buildID/status',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Read how a build is doing, and its log lines from an offset on',
        params: BuildPath,
        querystring: StatusQuery,
        response: { 200: BuildStatusAnswer, ...failures },
      },
    },
    async (request) => {
      const { templateID } = request.params
      const buildID = parseBuildID(request.params.buildID, 'Invalid build id')
      const { logsOffset = 0, limit = defaultLimit, level } = request.query
      const team = context.auth.teamOf(request)
      const { build, entries, lastEntries } = await context.builds.status(team, templateID, buildID)
      const shown = atLeast(entries, level).slice(logsOffset, logsOffset + limit)
      return {
        ...{ templateID, buildID, status: build.status },
        logs: shown.map(({ message }) => `${message}\n`),
        logEntries: shown.map(presentLine),
        ...(build.reason && {
          reason: {
            message: build.reason.message,
            ...(build.reason.step !== null && { step: build.reason.step }),
            logEntries: lastEntries.map(presentLine),
          },
        }),
      }
    },
  )
}
