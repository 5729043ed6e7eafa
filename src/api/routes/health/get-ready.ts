import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'

/** For load balancers: a server that is alive may not be ready for requests. */
export function readyRoute(app: Api, { whyNotReady }: RouteContext): void {
  app.get(
    '/health/ready',
    {
      schema: {
        summary: 'Whether the server can serve requests now',
        tags: ['health'],
        response: { 200: Type.Object({ ready: Type.Boolean() }), ...failures },
      },
    },
    async (_, reply) => {
      const reason = await whyNotReady()
      reply.header('cache-control', 'no-store')
      if (reason === undefined) return { ready: true }
      // Not thrown: a client that asks every second would fill the log.
      return reply.code(503).send({ code: 503, message: reason })
    },
  )
}
