import { Webhook, WebhookPath } from '../../../contract/rest/event.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentWebhook } from '../../present-event.ts'
import { eventSchema } from './event-schema.ts'

export function getWebhookRoute(app: Api, context: RouteContext): void {
  app.get(
    '/events/webhooks/:webhookID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'Read a webhook, and whether its deliveries arrive',
        params: WebhookPath,
        response: { 200: Webhook, ...failures },
      },
    },
    async (request) => {
      const team = context.auth.teamOf(request)
      return presentWebhook(await context.webhooks.get(team, request.params.webhookID))
    },
  )
}
