/** Events and webhooks as the wire shows them. */
import type * as wire from '../contract/rest/event.ts'
import type { EventType, LifecycleEvent } from '../core/event/event.ts'
import { wireType } from '../core/webhook/payload.ts'
import type { Delivery, Webhook } from '../core/webhook/webhook.ts'

const timeOf = (at: number): string => new Date(at).toISOString()
const timeOrNull = (at: number | null): string | null => (at === null ? null : timeOf(at))

export const eventTypeOf = (type: wire.EventType): EventType =>
  type.slice('sandbox.lifecycle.'.length) as EventType

export function presentEvent(event: LifecycleEvent): wire.SandboxEvent {
  return {
    version: 'v2',
    id: event.eventID,
    type: wireType(event.type),
    eventData: event.data,
    sandboxBuildId: event.buildID,
    sandboxExecutionId: event.runID,
    sandboxId: event.sandboxID,
    sandboxTeamId: event.teamID,
    sandboxTemplateId: event.templateID,
    timestamp: timeOf(event.at),
  }
}

export function presentWebhook(webhook: Webhook): wire.Webhook {
  const { webhookID, teamID, name, url, enabled, events, lastError } = webhook
  return {
    id: webhookID,
    teamID,
    name,
    url,
    enabled,
    events: events.map(wireType),
    lastError,
    createdAt: timeOf(webhook.createdAt),
    failingSince: timeOrNull(webhook.failingSince),
  }
}

export function presentDelivery(delivery: Delivery): wire.Delivery {
  const { deliveryID, eventID, type, sandboxID, status, attempts, lastStatus, lastError } = delivery
  return {
    id: deliveryID,
    eventID,
    type: wireType(type),
    sandboxID,
    status,
    attempts,
    lastStatus,
    lastError,
    createdAt: timeOf(delivery.createdAt),
    nextAttemptAt: status === 'pending' ? timeOf(delivery.nextAt) : null,
    endedAt: timeOrNull(delivery.endedAt),
  }
}
