import { Type } from 'typebox'
import { Webhook } from '../../../contract/rest/event.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentWebhook } from '../../present-event.ts'
import { eventSchema } from './event-schema.ts'

export function listWebhooksRoute(app: Api, context: RouteContext): void {
  app.get(
    '/events/webhooks',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'List the webhooks of the team, the oldest first',
        response: { 200: Type.Array(Webhook), ...failures },
      },
    },
    async (request) => {
      const webhooks = await context.webhooks.list(context.auth.teamOf(request))
      return webhooks.map(presentWebhook)
    },
  )
}
