import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'

/** Load balancers wait for a second or more, so a database that hangs must not delay the answer for longer. */
const waitForDatabaseMs = 500

/**
 * For load balancers: a server that is alive may not be ready for requests. A server without its database is ready,
 * because it serves the traffic of its sandboxes; the answer names the outage.
 */
export function readyRoute(app: Api, { health }: RouteContext): void {
  app.get(
    '/health/ready',
    {
      schema: {
        summary: 'Whether the server can serve requests now',
        tags: ['health'],
        response: {
          200: Type.Object({
            ready: Type.Boolean(),
            conditions: Type.Optional(Type.Object({ database: Type.String() })),
          }),
          ...failures,
        },
      },
    },
    async (_, reply) => {
      reply.header('cache-control', 'no-store')
      const reason = health.whyNotServing()
      // Not thrown: a client that asks every second would fill the log.
      if (reason !== undefined) return reply.code(503).send({ code: 503, message: reason })
      const database = await health.databaseProblem(waitForDatabaseMs)
      return { ready: true, ...(database !== undefined && { conditions: { database } }) }
    },
  )
}
