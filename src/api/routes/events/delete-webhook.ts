import { WebhookPath } from '../../../contract/rest/event.ts'
import { Empty, failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { eventSchema } from './event-schema.ts'

export function deleteWebhookRoute(app: Api, context: RouteContext): void {
  app.delete(
    '/events/webhooks/:webhookID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...eventSchema,
        summary: 'Delete a webhook with its waiting deliveries',
        params: WebhookPath,
        response: { 200: Empty, ...failures },
      },
    },
    async (request, reply) => {
      await context.webhooks.delete(context.auth.teamOf(request), request.params.webhookID)
      return reply.code(200).send(undefined)
    },
  )
}
