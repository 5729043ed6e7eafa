import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { ListedSandbox, ListQuery } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { type SandboxState, wireStates } from '../../../core/sandbox/row/sandbox.ts'
import type { SandboxPage } from '../../../core/sandbox/row/sandbox-store.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { cutPage, decodeCursor, encodeCursor, type Order } from '../../paging.ts'
import { presentListed, tokensFor } from '../../present.ts'
import { parseFilter } from './sandbox-filter.ts'
import { sandboxSchema } from './sandbox-schema.ts'

const defaultLimit = 100

export function listSandboxesRoute(app: Api, context: RouteContext): void {
  app.get(
    '/v2/sandboxes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...sandboxSchema,
        summary: 'List sandboxes, page by page',
        querystring: ListQuery,
        response: { 200: Type.Array(ListedSandbox), ...failures },
      },
    },
    async (request, reply) => {
      const { query } = request
      const limit = query.limit ?? defaultLimit
      const order = parseOrder(query.order)
      const wanted = toPage(order, limit, query.nextToken)
      const filter = await parseFilter(context, context.auth.teamOf(request), query)
      const rows = await context.sandboxes.list(filter, wanted)
      const { page, last } = cutPage(rows, limit)
      if (last) {
        reply.header(header.nextToken, encodeCursor({ at: last.startedAt, id: last.sandboxID }, order))
      }
      const runningStates = filter.states.filter(isRunning)
      if (runningStates.length > 0) {
        const running = await context.sandboxes.count({ ...filter, states: runningStates })
        reply.header(header.totalRunning, String(running))
      }
      const tokens = tokensFor(context, request)
      return page.map((row) => presentListed(row, tokens))
    },
  )
}

function toPage(order: Order, limit: number, nextToken: string | undefined): SandboxPage {
  const page: SandboxPage = { order, limit: limit + 1 }
  if (nextToken) {
    const cursor = decodeCursor(nextToken, order)
    page.after = { startedAt: cursor.at, sandboxID: cursor.id }
  }
  return page
}

function parseOrder(value: string | undefined): Order {
  if (value === undefined || value === 'desc') return 'desc'
  if (value === 'asc') return 'asc'
  throw new AppError('invalid_argument', 'Invalid order parameter: it is asc or desc')
}

function isRunning(state: SandboxState): boolean {
  return (wireStates.running as readonly SandboxState[]).includes(state)
}
