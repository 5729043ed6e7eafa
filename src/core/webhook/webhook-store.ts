/** What is remembered of webhooks and of what they are sent. */
import type { SealedValue } from '../secret/vault.ts'
import type { Attempt, Delivery, DueDelivery, Webhook } from './webhook.ts'

export type WebhookChanges = Partial<Pick<Webhook, 'name' | 'url' | 'enabled' | 'events'>> & {
  secret?: SealedValue
}

export interface WebhookStore {
  /** False: the team has `most` webhooks, and nothing was inserted. Parallel inserts do not pass the limit together. */
  insert(webhook: Webhook, secret: SealedValue, most: number): Promise<boolean>
  find(teamID: string, webhookID: string): Promise<Webhook | undefined>
  /** The oldest first. */
  list(teamID: string): Promise<Webhook[]>
  /** Undefined when the team has no such webhook. */
  update(teamID: string, webhookID: string, changes: WebhookChanges): Promise<Webhook | undefined>
  /** Deletes the webhook with its deliveries. False when the team has no such webhook. */
  delete(teamID: string, webhookID: string): Promise<boolean>
}

/** Deliveries are written by the `SandboxStore`, with the events that they carry. */
export interface DeliveryStore {
  /** The newest first. */
  list(webhookID: string, page: { offset: number; limit: number }): Promise<Delivery[]>
  /**
   * What enabled webhooks are to be sent at `now`: at most so many for each, and of each sandbox only the earliest event
   * that waits.
   */
  listDue(now: number, perWebhook: number): Promise<DueDelivery[]>
  /** Records how an attempt ended, also with the webhook. Nothing happens if somebody recorded another one meanwhile. */
  record(seen: Pick<Delivery, 'deliveryID' | 'attempts'>, attempt: Attempt): Promise<void>
  /**
   * Forgets what ended before `endedBefore`, what has no webhook, and of each webhook all but the newest so many. A webhook
   * that loses deliveries which wait is shown as failing.
   */
  prune(limits: { endedBefore: number; mostPerWebhook: number; now: number }): Promise<void>
}
