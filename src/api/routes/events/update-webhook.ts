import { Webhook, WebhookPath, WebhookUpdate } from '../../../contract/rest/event.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { eventTypeOf, presentWebhook } from '../../present-event.ts'
import { eventSchema } from './event-schema.ts'

export function updateWebhookRoute(app: Api, context: RouteContext): void {
  app.patch(
    '/events/webhooks/:webhookID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'Change a webhook; fields that are not given stay unchanged',
        params: WebhookPath,
        body: WebhookUpdate,
        response: { 200: Webhook, ...failures },
      },
    },
    async (request) => {
      const { signatureSecret: secret, events, name, url, enabled } = request.body
      const updated = await context.webhooks.update(context.auth.teamOf(request), request.params.webhookID, {
        ...(name !== undefined && { name }),
        ...(url !== undefined && { url }),
        ...(enabled !== undefined && { enabled }),
        ...(events && { events: events.map(eventTypeOf) }),
        ...(secret !== undefined && { secret }),
      })
      return presentWebhook(updated)
    },
  )
}
