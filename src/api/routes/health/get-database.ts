import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'

/** For alarms, and for load balancers of the API alone: whether requests that need the database can succeed. */
export function databaseHealthRoute(app: Api, { health }: RouteContext): void {
  app.get(
    '/health/database',
    {
      schema: {
        summary: 'Whether the database answers',
        tags: ['health'],
        response: { 200: Type.Object({ ready: Type.Boolean() }), ...failures },
      },
    },
    async (_, reply) => {
      reply.header('cache-control', 'no-store')
      const problem = await health.databaseProblem()
      if (problem === undefined) return { ready: true }
      // Not thrown: a client that asks every second would fill the log.
      return reply.code(503).send({ code: 503, message: `The database ${problem}.` })
    },
  )
}
