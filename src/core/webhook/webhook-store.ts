/** Stored webhooks and their deliveries. */
import type { SealedValue } from '../secret/vault.ts'
import type { Attempt, Delivery, DueDelivery, Webhook } from './webhook.ts'

export type WebhookChanges = Partial<Pick<Webhook, 'name' | 'url' | 'enabled' | 'events'>> & {
  secret?: SealedValue
}

export interface WebhookStore {
  /**
   * False if the team has `max` webhooks; nothing is inserted then. Concurrent inserts cannot exceed the
   * limit together.
   */
  insert(webhook: Webhook, secret: SealedValue, max: number): Promise<boolean>
  find(teamID: string, webhookID: string): Promise<Webhook | undefined>
  /** Oldest first. */
  list(teamID: string): Promise<Webhook[]>
  /** Undefined if the team has no such webhook. */
  update(teamID: string, webhookID: string, changes: WebhookChanges): Promise<Webhook | undefined>
  /** Deletes the webhook with its deliveries. False if the team has no such webhook. */
  delete(teamID: string, webhookID: string): Promise<boolean>
}

/** The `SandboxStore` writes deliveries, in one transaction with their events. */
export interface DeliveryStore {
  /** Newest first. */
  list(webhookID: string, page: { offset: number; limit: number }): Promise<Delivery[]>
  /**
   * The deliveries that are due at `now` for enabled webhooks: at most `perWebhook` for each, and only the
   * earliest waiting event of each sandbox.
   */
  listDue(now: number, perWebhook: number): Promise<DueDelivery[]>
  /**
   * Records the end of an attempt in the delivery and the webhook. Does nothing if another attempt was
   * recorded meanwhile.
   */
  record(seen: Pick<Delivery, 'deliveryID' | 'attempts'>, attempt: Attempt): Promise<void>
  /**
   * Removes deliveries that ended before `endedBefore`, those without a webhook, and all but the newest
   * `maxPerWebhook` of each webhook. A webhook that loses waiting deliveries is shown as failing.
   */
  prune(limits: { endedBefore: number; maxPerWebhook: number; now: number }): Promise<void>
}
