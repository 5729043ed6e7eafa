import { failures } from '../../../contract/rest/shared.ts'
import {
  BuildLogs,
  BuildLogsQuery,
  BuildPath,
  BuildStatusAnswer,
  StatusQuery,
} from '../../../contract/rest/template.ts'
import { type LogEntry, type LogLevel, logLevels } from '../../../core/logs.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentLine } from '../../present-template.ts'
import { parseBuildID } from './build-id.ts'

const defaultLimit = 100

export function buildStatusRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['templates'], security: [{ ApiKeyAuth: [] }], params: BuildPath }

  app.get(
    '/templates/:templateID/builds/:buildID/status',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'Read how a build is doing, and what it told since',
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

  app.get(
    '/templates/:templateID/builds/:buildID/logs',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'Read what a build told, from a time on or before it',
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
          ? all.filter(({ at }) => at >= (cursor ?? 0)).slice(0, limit)
          : all
              .filter(({ at }) => at < (cursor ?? Number.MAX_SAFE_INTEGER))
              .reverse()
              .slice(0, limit)
      return { logs: found.map(presentLine) }
    },
  )
}

function atLeast(entries: LogEntry[], level: LogLevel | undefined): LogEntry[] {
  if (level === undefined) return entries
  return entries.filter((entry) => logLevels.indexOf(entry.level) >= logLevels.indexOf(level))
}
