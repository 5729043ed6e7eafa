/**
 * The webhooks of teams. A secret is sealed when it comes in; only the dispatcher opens it, to sign what it
 * sends.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { insertOnce } from '../../lib/insert-once.ts'
import type { EventType } from '../event/event.ts'
import type { SecretVault } from '../secret/vault.ts'
import type { Team } from '../team/team.ts'
import {
  checkSecret,
  checkUrl,
  type Delivery,
  invalidWebhook,
  secretOwnerOf,
  type Webhook,
  webhookLimits,
} from './webhook.ts'
import type { DeliveryStore, WebhookStore } from './webhook-store.ts'

type WebhookRequest = {
  name: string
  url: string
  enabled: boolean
  events: readonly EventType[]
  secret: string
}

type WebhookServiceParts = {
  webhooks: WebhookStore
  deliveries: DeliveryStore
  vault: SecretVault
  /** True if nothing may be sent to the address. */
  isClosed: (address: string) => boolean
  clock: Clock
}

export class WebhookService {
  readonly #parts: WebhookServiceParts

  constructor(parts: WebhookServiceParts) {
    this.#parts = parts
  }

  async create({ teamID }: Team, { secret, ...request }: WebhookRequest): Promise<Webhook> {
    const { webhooks, vault, clock } = this.#parts
    this.#check({ ...request, secret })
    const webhookID = newUUID()
    const state = { failingSince: null, lastError: null, createdAt: clock.now() }
    const webhook = { ...request, webhookID, teamID, ...state }
    const sealed = vault.seal(secretOwnerOf(webhook), secret)
    const isInserted = await insertOnce(clock, {
      insert: () => webhooks.insert(webhook, sealed, webhookLimits.perTeam),
      isThere: async () => (await webhooks.find(teamID, webhookID)) !== undefined,
    })
    if (isInserted) return webhook
    throw new AppError(
      'conflict',
      `The team has ${webhookLimits.perTeam} webhooks, which is the limit: delete those it does not need`,
      { slug: 'webhook_limit_reached', retry: { should: false } },
    )
  }

  list({ teamID }: Team): Promise<Webhook[]> {
    return this.#parts.webhooks.list(teamID)
  }

  async get({ teamID }: Team, webhookID: string): Promise<Webhook> {
    return (await this.#parts.webhooks.find(teamID, webhookID)) ?? notFound()
  }

  /** Fields that are not given stay unchanged. */
  async update(
    { teamID }: Team,
    webhookID: string,
    { secret, ...changes }: Partial<WebhookRequest>,
  ): Promise<Webhook> {
    const { webhooks, vault } = this.#parts
    this.#check({ ...changes, ...(secret !== undefined && { secret }) })
    const sealed = secret === undefined ? undefined : vault.seal(secretOwnerOf({ teamID, webhookID }), secret)
    const updated = await webhooks.update(teamID, webhookID, {
      ...changes,
      ...(sealed && { secret: sealed }),
    })
    return updated ?? notFound()
  }

  async delete({ teamID }: Team, webhookID: string): Promise<void> {
    if (!(await this.#parts.webhooks.delete(teamID, webhookID))) notFound()
  }

  /** Newest first. */
  async listDeliveries(
    team: Team,
    webhookID: string,
    page: { offset: number; limit: number },
  ): Promise<Delivery[]> {
    const webhook = await this.get(team, webhookID)
    return this.#parts.deliveries.list(webhook.webhookID, page)
  }

  #check({ name, url, events, secret }: Partial<WebhookRequest>): void {
    if (name !== undefined && (name.trim() === '' || name.length > webhookLimits.nameLength)) {
      throw invalidWebhook(`its name must have 1 to ${webhookLimits.nameLength} characters`)
    }
    if (url !== undefined) checkUrl(url, this.#parts.isClosed)
    if (events?.length === 0) throw invalidWebhook('it names no events; name at least one')
    if (secret !== undefined) checkSecret(secret)
  }
}

function notFound(): never {
  throw new AppError('not_found', 'Webhook not found: the team has none with this id')
}
