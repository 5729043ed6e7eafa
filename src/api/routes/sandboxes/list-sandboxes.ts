import { Type } from 'typebox'
import { header } from '../../../contract/constants.ts'
import { ListedSandbox, ListQuery, RunningQuery } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import { type SandboxState, wireStates } from '../../../core/sandbox/sandbox.ts'
import type { SandboxFilter, SandboxPage } from '../../../core/stores.ts'
import type { Team } from '../../../core/team/team.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { parseMetadataFilter } from '../../metadata-filter.ts'
import { cutPage, decodeCursor, encodeCursor, type Order } from '../../paging.ts'
import { presentListed } from '../../present.ts'

const defaultLimit = 100
/** The unpaged list of old clients; more than this wants the paged one. */
const unpagedLimit = 5000

export function listSandboxesRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['sandboxes'], security: [{ ApiKeyAuth: [] }] }
  const response = { 200: Type.Array(ListedSandbox), ...failures }

  app.get(
    '/v2/sandboxes',
    {
      onRequest: context.auth.requireTeam,
      schema: { ...schema, summary: 'List sandboxes, page by page', querystring: ListQuery, response },
    },
    async (request, reply) => {
      const { query } = request
      const limit = query.limit ?? defaultLimit
      const order = parseOrder(query.order)
      const wanted = toPage(order, limit, query.nextToken)
      const filter = await toFilter(context, context.auth.teamOf(request), query)
      const rows = await context.sandboxes.list(filter, wanted)
      const { page, last } = cutPage(rows, limit)
      if (last) {
        reply.header(header.nextToken, encodeCursor({ at: last.startedAt, id: last.sandboxID }, order))
      }
      const runningStates = filter.states.filter((state) => isOf('running', state))
      if (runningStates.length > 0) {
        const running = await context.sandboxes.count({ ...filter, states: runningStates })
        reply.header(header.totalRunning, String(running))
      }
      return page.map(presentListed)
    },
  )

  app.get(
    '/sandboxes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'List running sandboxes',
        deprecated: true,
        querystring: RunningQuery,
        response,
      },
    },
    async (request) => {
      const filter = await toFilter(context, context.auth.teamOf(request), {
        ...request.query,
        state: 'running',
      })
      const page: SandboxPage = { order: 'desc', limit: unpagedLimit + 1 }
      const rows = await context.sandboxes.list(filter, page)
      if (rows.length > unpagedLimit) {
        throw new AppError(
          'invalid_argument',
          `More than ${unpagedLimit} sandboxes match: use /v2/sandboxes, which pages`,
        )
      }
      return rows.map(presentListed)
    },
  )
}

async function toFilter(context: RouteContext, team: Team, query: ListQuery): Promise<SandboxFilter> {
  const filter: SandboxFilter = { teamID: team.teamID, states: parseStates(query.state) }
  if (query.metadata !== undefined) filter.metadata = parseMetadataFilter(query.metadata)
  if (query.startedAfter !== undefined) filter.startedAfter = parseTime(query.startedAfter)
  if (query.template !== undefined) {
    if (query.template.includes(':')) {
      throw new AppError('invalid_argument', 'The template filter takes an id or a name without a tag')
    }
    // Also one that the team may use no more. No template has the empty id: of one that is not there are none.
    filter.templateID = (await context.catalog.findOfAny(team, query.template))?.templateID ?? ''
  }
  return filter
}

function toPage(order: Order, limit: number, nextToken: string | undefined): SandboxPage {
  const page: SandboxPage = { order, limit: limit + 1 }
  if (nextToken) {
    const cursor = decodeCursor(nextToken, order)
    page.after = { startedAt: cursor.at, sandboxID: cursor.id }
  }
  return page
}

function parseStates(value: ListQuery['state']): SandboxState[] {
  const names = [value ?? 'running,paused'].flat().flatMap((part) => part.split(','))
  return names.flatMap((name) => {
    if (name === 'running' || name === 'paused') return [...wireStates[name]]
    throw new AppError('invalid_argument', `validation error: state must be running or paused, not '${name}'`)
  })
}

/** The format that is checked before allows a leap second; a date of ours does not. */
function parseTime(text: string): number {
  const at = Date.parse(text)
  if (!Number.isNaN(at)) return at
  throw new AppError('invalid_argument', `validation error: startedAfter '${text}' is no time`)
}

function parseOrder(value: string | undefined): Order {
  if (value === undefined || value === 'desc') return 'desc'
  if (value === 'asc') return 'asc'
  throw new AppError('invalid_argument', 'Invalid order parameter: it is asc or desc')
}

function isOf(name: keyof typeof wireStates, state: SandboxState): boolean {
  return (wireStates[name] as readonly SandboxState[]).includes(state)
}
