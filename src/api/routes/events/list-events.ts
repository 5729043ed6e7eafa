import { type Static, Type } from 'typebox'
import { EventQuery, SandboxEvent } from '../../../contract/rest/event.ts'
import { SandboxPath } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { EventPage } from '../../../core/event/event-store.ts'
import type { Api, RouteContext } from '../../context.ts'
import { eventTypeOf, presentEvent } from '../../present-event.ts'
import { parseSandboxID } from '../../sandbox-id.ts'
import { eventSchema } from './event-schema.ts'

const response = { 200: Type.Array(SandboxEvent), ...failures }

export function listEventsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/events/sandboxes',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'List the events of all sandboxes of the team, the newest first',
        querystring: EventQuery,
        response,
      },
    },
    async (request) => {
      const { teamID } = context.auth.teamOf(request)
      const events = await context.events.list({ teamID, ...typesOf(request.query) }, pageOf(request.query))
      return events.map(presentEvent)
    },
  )
}

/** Does not look up the sandbox, because events outlive it: a sandbox without events has an empty list. */
export function listSandboxEventsRoute(app: Api, context: RouteContext): void {
  app.get(
    '/events/sandboxes/:sandboxID',
    {
      onRequest: context.auth.requireTeam,
      config: { answeredByAny: true },
      schema: {
        ...eventSchema,
        summary: 'List the events of one sandbox, the newest first',
        params: SandboxPath,
        querystring: EventQuery,
        response,
      },
    },
    async (request) => {
      const { teamID } = context.auth.teamOf(request)
      const sandboxID = parseSandboxID(request.params.sandboxID)
      const filter = { teamID, sandboxID, ...typesOf(request.query) }
      return (await context.events.list(filter, pageOf(request.query))).map(presentEvent)
    },
  )
}

function pageOf({ offset = 0, limit = 10, orderAsc = false }: Static<typeof EventQuery>): EventPage {
  return { offset, limit, order: orderAsc ? 'asc' : 'desc' }
}

const typesOf = ({ types }: Static<typeof EventQuery>) => types && { types: types.map(eventTypeOf) }
