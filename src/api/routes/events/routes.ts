import type { Api, RouteContext } from '../../context.ts'
import { createWebhookRoute } from './create-webhook.ts'
import { deleteWebhookRoute } from './delete-webhook.ts'
import { getWebhookRoute } from './get-webhook.ts'
import { listDeliveriesRoute } from './list-deliveries.ts'
import { listEventsRoute, listSandboxEventsRoute } from './list-events.ts'
import { listWebhooksRoute } from './list-webhooks.ts'
import { updateWebhookRoute } from './update-webhook.ts'

export function eventRoutes(app: Api, context: RouteContext): void {
  listEventsRoute(app, context)
  listSandboxEventsRoute(app, context)
  listWebhooksRoute(app, context)
  createWebhookRoute(app, context)
  getWebhookRoute(app, context)
  updateWebhookRoute(app, context)
  deleteWebhookRoute(app, context)
  listDeliveriesRoute(app, context)
}
