import type { FastifyRequest } from 'fastify'
import {
  LogsQueryV1,
  LogsQueryV2,
  type SandboxLogEntry,
  SandboxLogs,
  SandboxLogsV2,
} from '../../../contract/rest/logs.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { LogEntry, LogQuery } from '../../../core/logs.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseSandboxID } from '../../sandbox-id.ts'

const defaultLimit = 1000
/** More than any page needs; without it one request could read a whole log into memory many times over. */
const largestLimit = 10_000

export function sandboxLogsRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['sandboxes'], security: [{ ApiKeyAuth: [] }], params: SandboxPath }

  app.get(
    '/sandboxes/:sandboxID/logs',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'The log of a sandbox, oldest first',
        querystring: LogsQueryV1,
        response: { 200: SandboxLogs, ...failures },
      },
    },
    async (request) => {
      const { start, limit = defaultLimit } = request.query
      const query: LogQuery = { direction: 'forward', limit: Math.min(limit, largestLimit) }
      if (start !== undefined) query.from = start
      const entries = (await readOwn(context, request, request.params.sandboxID, query)).map(presentEntry)
      return {
        logs: entries.map((entry) => ({ timestamp: entry.timestamp, line: asLine(entry) })),
        logEntries: entries,
      }
    },
  )

  app.get(
    '/v2/sandboxes/:sandboxID/logs',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'The log of a sandbox, newest first unless asked for otherwise',
        querystring: LogsQueryV2,
        response: { 200: SandboxLogsV2, ...failures },
      },
    },
    async (request) => {
      const { cursor, limit = defaultLimit, direction = 'backward', level, search } = request.query
      const query: LogQuery = { direction, limit, ...(level && { level }), ...(search && { search }) }
      if (cursor !== undefined) query[direction === 'forward' ? 'from' : 'before'] = cursor
      const entries = await readOwn(context, request, request.params.sandboxID, query)
      return { logs: entries.map(presentEntry) }
    },
  )
}

/** A sandbox that is not the team's has no log for it, whether it exists or not. */
async function readOwn(
  { auth, sandboxes, logs }: RouteContext,
  request: FastifyRequest,
  idText: string,
  query: LogQuery,
): Promise<LogEntry[]> {
  const [own] = await sandboxes.ownedBy(auth.teamOf(request), [parseSandboxID(idText)])
  if (own === undefined || query.limit === 0) return []
  return logs.read(own, query)
}

function presentEntry({ at, message, level, fields }: LogEntry): SandboxLogEntry {
  return { timestamp: new Date(at).toISOString(), message, level, fields }
}

/** The command line reads `level`, `logger` and `message` out of each line and shows the rest as fields. */
function asLine({ timestamp, message, level, fields }: SandboxLogEntry): string {
  return JSON.stringify({ logger: 'process', ...fields, timestamp, level, message })
}
