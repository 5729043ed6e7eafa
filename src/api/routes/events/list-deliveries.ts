import { Type } from 'typebox'
import { Delivery, DeliveryQuery, WebhookPath } from '../../../contract/rest/event.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentDelivery } from '../../present-event.ts'
import { eventSchema } from './event-schema.ts'

export function listDeliveriesRoute(app: Api, context: RouteContext): void {
  app.get(
    '/events/webhooks/:webhookID/deliveries',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'List the sent and waiting deliveries of a webhook, newest first',
        params: WebhookPath,
        querystring: DeliveryQuery,
        response: { 200: Type.Array(Delivery), ...failures },
      },
    },
    async (request) => {
      const { offset = 0, limit = 10 } = request.query
      const team = context.auth.teamOf(request)
      const page = { offset, limit }
      const deliveries = await context.webhooks.listDeliveries(team, request.params.webhookID, page)
      return deliveries.map(presentDelivery)
    },
  )
}
