import { LogsQueryV1, type SandboxLogEntry, SandboxLogs } from '../../../contract/rest/logs.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { LogQuery } from '../../../core/ports/logs.ts'
import type { Api, RouteContext } from '../../context.ts'
import { defaultLogLimit, presentEntry, readOwnLog } from './own-log.ts'
import { sandboxSchema } from './sandbox-schema.ts'

/**
 * More than any page needs. Without a limit, one request could read a whole log into memory many times over.
 */
const largestLimit = 10_000

export function getSandboxLogsV1Route(app: Api, context: RouteContext): void {
  app.get(
    '/sandboxes/:sandboxID/logs',
    {
      onRequest: context.auth.requireTeam,
      config: { readsLog: true },
      schema: {
        ...sandboxSchema,
        summary: 'Read the log of a sandbox, oldest first',
        params: SandboxPath,
        querystring: LogsQueryV1,
        response: { 200: SandboxLogs, ...failures },
      },
    },
    async (request) => {
      const { start, limit = defaultLogLimit } = request.query
      const query: LogQuery = { direction: 'forward', limit: Math.min(limit, largestLimit) }
      if (start !== undefined) query.from = start
      const entries = (await readOwnLog(context, request, request.params.sandboxID, query)).map(presentEntry)
      return {
        logs: entries.map((entry) => ({ timestamp: entry.timestamp, line: asLine(entry) })),
        logEntries: entries,
      }
    },
  )
}

/** The command line reads `level`, `logger` and `message` from each line and shows the rest as fields. */
function asLine({ timestamp, message, level, fields }: SandboxLogEntry): string {
  return JSON.stringify({ logger: 'process', ...fields, timestamp, level, message })
}
