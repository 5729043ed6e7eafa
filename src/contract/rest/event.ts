/** Events and webhooks on the wire. The secret of a webhook goes in and never comes out. */
import { type Static, Type } from 'typebox'
import { DateTime, PlainText } from './shared.ts'

export const EventType = Type.Enum([
  'sandbox.lifecycle.created',
  'sandbox.lifecycle.updated',
  'sandbox.lifecycle.paused',
  'sandbox.lifecycle.resumed',
  'sandbox.lifecycle.checkpointed',
  'sandbox.lifecycle.killed',
])
export type EventType = Static<typeof EventType>

export const SandboxEvent = Type.Object({
  version: Type.String(),
  id: Type.String({ format: 'uuid' }),
  type: EventType,
  eventData: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()]),
  sandboxBuildId: Type.String(),
  sandboxExecutionId: Type.String(),
  sandboxId: Type.String(),
  sandboxTeamId: Type.String(),
  sandboxTemplateId: Type.String(),
  timestamp: DateTime,
})
export type SandboxEvent = Static<typeof SandboxEvent>

const Offset = Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0 })

export const EventQuery = Type.Object({
  offset: Type.Optional(Offset),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
  orderAsc: Type.Optional(Type.Boolean({ default: false, description: 'The oldest first' })),
  types: Type.Optional(Type.Array(EventType, { description: 'Only events of these types' })),
})

const webhookFields = {
  name: PlainText,
  url: PlainText,
  enabled: Type.Boolean(),
  events: Type.Array(EventType),
}

export const Webhook = Type.Object({
  id: Type.String(),
  teamID: Type.String(),
  ...webhookFields,
  createdAt: DateTime,
  failingSince: Type.Union([DateTime, Type.Null()], {
    description: 'Since when deliveries were given up without one that arrived',
  }),
  lastError: Type.Union([Type.String(), Type.Null()], {
    description: 'Why the last attempt failed, if it did',
  }),
})
export type Webhook = Static<typeof Webhook>

const signatureSecret = Type.String({ description: 'Stored sealed, and used to sign what is sent' })

export const NewWebhook = Type.Object({
  ...webhookFields,
  enabled: Type.Optional(Type.Boolean({ default: true })),
  signatureSecret,
})

export const WebhookUpdate = Type.Partial(Type.Object({ ...webhookFields, signatureSecret }))

export const WebhookPath = Type.Object({ webhookID: Type.String() })

export const DeliveryQuery = Type.Object({
  offset: Type.Optional(Offset),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
})

export const Delivery = Type.Object({
  id: Type.String(),
  eventID: Type.String(),
  type: EventType,
  sandboxID: Type.String(),
  status: Type.Enum(['pending', 'delivered', 'failed']),
  attempts: Type.Integer(),
  createdAt: DateTime,
  nextAttemptAt: Type.Union([DateTime, Type.Null()]),
  endedAt: Type.Union([DateTime, Type.Null()]),
  lastStatus: Type.Union([Type.Integer(), Type.Null()]),
  lastError: Type.Union([Type.String(), Type.Null()]),
})
export type Delivery = Static<typeof Delivery>
