import { LogsQueryV2, SandboxLogsV2 } from '../../../contract/rest/logs.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { LogQuery } from '../../../core/ports/logs.ts'
import type { Api, RouteContext } from '../../context.ts'
import { defaultLogLimit, presentEntry, readOwnLog } from './own-log.ts'
import { sandboxSchema } from './sandbox-schema.ts'

export function getSandboxLogsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/v2/sandboxes/:sandboxID/logs',
    {
      onRequest: context.auth.requireTeam,
      config: { readsLog: true },
      schema: {
        ...sandboxSchema,
        summary: 'Read the log of a sandbox, newest first by default',
        params: SandboxPath,
        querystring: LogsQueryV2,
        response: { 200: SandboxLogsV2, ...failures },
      },
    },
    async (request) => {
      const { cursor, limit = defaultLogLimit, direction = 'backward', level, search } = request.query
      const query: LogQuery = { direction, limit, ...(level && { level }), ...(search && { search }) }
      if (cursor !== undefined) query[direction === 'forward' ? 'from' : 'before'] = cursor
      const entries = await readOwnLog(context, request, request.params.sandboxID, query)
      return { logs: entries.map(presentEntry) }
    },
  )
}
