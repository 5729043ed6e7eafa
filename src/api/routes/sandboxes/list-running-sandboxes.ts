import { Type } from 'typebox'
import { ListedSandbox, RunningQuery } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentListed, tokensFor } from '../../present.ts'
import { parseFilter } from './sandbox-filter.ts'
import { sandboxSchema } from './sandbox-schema.ts'

/** This list has no pages; a team with more sandboxes needs the paged list. */
const longestList = 5000

export function listRunningSandboxesRoute(app: Api, context: RouteContext): void {
  app.get(
    '/sandboxes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'List running sandboxes',
        deprecated: true,
        querystring: RunningQuery,
        response: { 200: Type.Array(ListedSandbox), ...failures },
      },
    },
    async (request) => {
      const query = { ...request.query, state: 'running' }
      const filter = await parseFilter(context, context.auth.teamOf(request), query)
      const rows = await context.sandboxes.list(filter, { order: 'desc', limit: longestList + 1 })
      if (rows.length > longestList) {
        throw new AppError(
          'invalid_argument',
          `More than ${longestList} sandboxes match: use /v2/sandboxes, which has pages`,
        )
      }
      const tokens = tokensFor(context, request)
      return rows.map((row) => presentListed(row, tokens))
    },
  )
}
