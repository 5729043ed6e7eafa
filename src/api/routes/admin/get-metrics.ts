import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

/** Prometheus can send the token as a bearer; every other client of the operator sends it as it always does. */
export function getMetricsRoute(app: Api, { auth, renderMetrics }: RouteContext): void {
  app.get(
    '/metrics',
    {
      onRequest: auth.requireAdminOrBearer,
      schema: {
        ...adminSchema,
        summary: 'Figures of the server in the text format of Prometheus',
        response: { 200: Type.String(), ...failures },
      },
    },
    async (_, reply) => {
      const { contentType, text } = await renderMetrics()
      return reply.header('content-type', contentType).send(text)
    },
  )
}
