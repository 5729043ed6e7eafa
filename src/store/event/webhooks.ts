import type { Kysely, Updateable } from 'kysely'
import type { SealedValue } from '../../core/secret/vault.ts'
import type { Webhook } from '../../core/webhook/webhook.ts'
import type { WebhookChanges, WebhookStore } from '../../core/webhook/webhook-store.ts'
import type { Tables, WebhookRow } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'

export class SqlWebhookStore implements WebhookStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  insert(webhook: Webhook, secret: SealedValue, max: number): Promise<boolean> {
    const begun = this.#db.transaction().setIsolationLevel('read committed')
    return begun.execute(async (transaction) => {
      await lockTeam(transaction, webhook.teamID)
      const { count } = await transaction
        .selectFrom('webhooks')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('team_id', '=', webhook.teamID)
        .executeTakeFirstOrThrow()
      if (count >= max) return false
      await transaction.insertInto('webhooks').values(rowOf(webhook, secret)).execute()
      return true
    })
  }

  async find(teamID: string, webhookID: string): Promise<Webhook | undefined> {
    const row = await this.#db
      .selectFrom('webhooks')
      .selectAll()
      .where('team_id', '=', teamID)
      .where('id', '=', webhookID)
      .executeTakeFirst()
    return row && webhookOf(row)
  }

  async list(teamID: string): Promise<Webhook[]> {
    const rows = await this.#db
      .selectFrom('webhooks')
      .selectAll()
      .where('team_id', '=', teamID)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
    return rows.map(webhookOf)
  }

  async update(teamID: string, webhookID: string, changes: WebhookChanges): Promise<Webhook | undefined> {
    const columns = changedColumns(changes)
    if (Object.keys(columns).length === 0) return this.find(teamID, webhookID)
    const row = await this.#db
      .updateTable('webhooks')
      .set(columns)
      .where('team_id', '=', teamID)
      .where('id', '=', webhookID)
      .returningAll()
      .executeTakeFirst()
    return row && webhookOf(row)
  }

  delete(teamID: string, webhookID: string): Promise<boolean> {
    return this.#db.transaction().execute(async (transaction) => {
      const { numDeletedRows } = await transaction
        .deleteFrom('webhooks')
        .where('team_id', '=', teamID)
        .where('id', '=', webhookID)
        .executeTakeFirstOrThrow()
      if (numDeletedRows === 0n) return false
      await transaction.deleteFrom('webhook_deliveries').where('webhook_id', '=', webhookID).execute()
      return true
    })
  }
}

function rowOf(webhook: Webhook, { keyID, sealed }: SealedValue): WebhookRow {
  return {
    id: webhook.webhookID,
    team_id: webhook.teamID,
    name: webhook.name,
    url: webhook.url,
    is_enabled: webhook.enabled ? 1 : 0,
    events: JSON.stringify(webhook.events),
    secret_key_id: keyID,
    secret_sealed: sealed,
    failing_since: webhook.failingSince,
    last_error: webhook.lastError,
    created_at: webhook.createdAt,
  }
}

function webhookOf(row: WebhookRow): Webhook {
  return {
    webhookID: row.id,
    teamID: row.team_id,
    name: row.name,
    url: row.url,
    enabled: row.is_enabled === 1,
    events: JSON.parse(row.events),
    failingSince: row.failing_since,
    lastError: row.last_error,
    createdAt: row.created_at,
  }
}

function changedColumns({ name, url, enabled, events, secret }: WebhookChanges): Updateable<WebhookRow> {
  const columns = {
    name,
    url,
    is_enabled: enabled === undefined ? undefined : enabled ? 1 : 0,
    events: events && JSON.stringify(events),
    secret_key_id: secret?.keyID,
    secret_sealed: secret?.sealed,
  }
  return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined))
}
