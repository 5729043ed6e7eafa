import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

/** Prometheus can send the token as a bearer; all other clients of the operator use their usual header. */
export function getMetricsRoute(app: Api, { auth, renderMetrics }: RouteContext): void {
  app.get(
    '/metrics',
    {
      onRequest: auth.requireAdminOrBearer,
      schema: {
        ...adminSchema,
        summary: "Read the server's metrics in the text format of Prometheus",
        response: { 200: Type.String(), ...failures },
      },
    },
    async (_, reply) => {
      const { contentType, text } = await renderMetrics()
      return reply.header('content-type', contentType).send(text)
    },
  )
}
