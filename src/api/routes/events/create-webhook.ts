import { NewWebhook, Webhook } from '../../../contract/rest/event.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { eventTypeOf, presentWebhook } from '../../present-event.ts'
import { eventSchema } from './event-schema.ts'

export function createWebhookRoute(app: Api, context: RouteContext): void {
  app.post(
    '/events/webhooks',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'Create a webhook, which sends events to a URL',
        body: NewWebhook,
        response: { 201: Webhook, ...failures },
      },
    },
    async (request, reply) => {
      const { signatureSecret: secret, events, enabled = true, name, url } = request.body
      const webhook = await context.webhooks.create(context.auth.teamOf(request), {
        name,
        url,
        enabled,
        secret,
        events: events.map(eventTypeOf),
      })
      return reply.code(201).send(presentWebhook(webhook))
    },
  )
}
