import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import type { Attempt, Delivery, DueDelivery } from '../../core/webhook/webhook.ts'
import type { DeliveryStore } from '../../core/webhook/webhook-store.ts'
import type { Tables, WebhookDeliveryRow } from '../database/tables.ts'

type PruneLimits = Parameters<DeliveryStore['prune']>[0]

/** Written as a literal: only then does the engine use the indexes of waiting deliveries. */
const isPending = (where: ExpressionBuilder<Tables, 'webhook_deliveries'>) =>
  where('webhook_deliveries.status', '=', sql.lit('pending'))

export class SqlDeliveryStore implements DeliveryStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async list(webhookID: string, { offset, limit }: { offset: number; limit: number }): Promise<Delivery[]> {
    const rows = await this.#db
      .selectFrom('webhook_deliveries')
      .selectAll()
      .where('webhook_id', '=', webhookID)
      .orderBy('created_at', 'desc')
      .orderBy('number', 'desc')
      .orderBy('id')
      .offset(offset)
      .limit(limit)
      .execute()
    return rows.map(deliveryOf)
  }

  async listDue(now: number, perWebhook: number): Promise<DueDelivery[]> {
    const webhooks = await this.#db
      .selectFrom('webhooks')
      .select(['id', 'url', 'secret_key_id', 'secret_sealed'])
      .where('is_enabled', '=', 1)
      .where(({ exists, selectFrom }) =>
        exists(
          selectFrom('webhook_deliveries')
            .select('webhook_deliveries.id')
            .where(isPending)
            .whereRef('webhook_id', '=', 'webhooks.id')
            .where('next_at', '<=', now),
        ),
      )
      .orderBy('id')
      .execute()
    const due: DueDelivery[] = []
    for (const { id, url, secret_key_id: keyID, secret_sealed: sealed } of webhooks) {
      const rows = await this.#heads(id, now, perWebhook)
      due.push(...rows.map((row) => ({ ...dueOf(row), url, secret: { keyID, sealed } })))
    }
    return due
  }

  /** The earliest waiting delivery of each sandbox, if it is due. */
  #heads(webhookID: string, now: number, limit: number): Promise<WebhookDeliveryRow[]> {
    return this.#db
      .selectFrom('webhook_deliveries')
      .selectAll()
      .where(isPending)
      .where('webhook_id', '=', webhookID)
      .where('next_at', '<=', now)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('webhook_deliveries as earlier')
              .select('earlier.id')
              .where('earlier.status', '=', sql.lit('pending'))
              .whereRef('earlier.webhook_id', '=', 'webhook_deliveries.webhook_id')
              .whereRef('earlier.sandbox_id', '=', 'webhook_deliveries.sandbox_id')
              .whereRef('earlier.number', '<', 'webhook_deliveries.number'),
          ),
        ),
      )
      .orderBy('next_at')
      .orderBy('id')
      .limit(limit)
      .execute()
  }

  record(seen: Pick<Delivery, 'deliveryID' | 'attempts'>, attempt: Attempt): Promise<void> {
    const { status, at, nextAt, httpStatus, error } = attempt
    return this.#db.transaction().execute(async (transaction) => {
      const row = await transaction
        .updateTable('webhook_deliveries')
        .set({
          status,
          attempts: seen.attempts + 1,
          next_at: nextAt,
          ended_at: status === 'pending' ? null : at,
          last_status: httpStatus,
          last_error: error,
        })
        .where('id', '=', seen.deliveryID)
        .where(isPending)
        .where('attempts', '=', seen.attempts)
        .returning('webhook_id')
        .executeTakeFirst()
      if (!row) return
      const webhook = transaction.updateTable('webhooks').where('id', '=', row.webhook_id)
      if (status === 'delivered') {
        // Writes nothing if the webhook has no failure recorded.
        await webhook
          .set({ failing_since: null, last_error: null })
          .where((where) =>
            where.or([where('failing_since', 'is not', null), where('last_error', 'is not', null)]),
          )
          .execute()
      } else {
        await webhook.set({ last_error: error }).execute()
        if (status === 'failed')
          await webhook.set({ failing_since: at }).where('failing_since', 'is', null).execute()
      }
    })
  }

  async prune({ endedBefore, maxPerWebhook, now }: PruneLimits): Promise<void> {
    await this.#db
      .deleteFrom('webhook_deliveries')
      .where((where) =>
        where.or([
          where('ended_at', '<', endedBefore),
          where('webhook_id', 'not in', where.selectFrom('webhooks').select('webhooks.id')),
        ]),
      )
      .execute()
    const crowded = await this.#db
      .selectFrom('webhook_deliveries')
      .select('webhook_id')
      .groupBy('webhook_id')
      .having(({ fn }) => fn.countAll<number>(), '>', maxPerWebhook)
      .execute()
    for (const { webhook_id } of crowded) await this.#pruneWebhook(webhook_id, maxPerWebhook, now)
  }

  #pruneWebhook(webhookID: string, max: number, now: number): Promise<void> {
    return this.#db.transaction().execute(async (transaction) => {
      const oldest = await transaction
        .selectFrom('webhook_deliveries')
        .select('created_at')
        .where('webhook_id', '=', webhookID)
        .orderBy('created_at', 'desc')
        .offset(max - 1)
        .limit(1)
        .executeTakeFirst()
      if (!oldest) return
      const gone = await transaction
        .deleteFrom('webhook_deliveries')
        .where('webhook_id', '=', webhookID)
        .where('created_at', '<', oldest.created_at)
        .returning('status')
        .execute()
      if (!gone.some(({ status }) => status === 'pending')) return
      const error = `More than ${max} deliveries waited, so the oldest were given up.`
      await transaction
        .updateTable('webhooks')
        .set(({ fn, val }) => ({ last_error: error, failing_since: fn.coalesce('failing_since', val(now)) }))
        .where('id', '=', webhookID)
        .execute()
    })
  }
}

function deliveryOf(row: WebhookDeliveryRow): Delivery {
  return {
    deliveryID: row.id,
    webhookID: row.webhook_id,
    eventID: row.event_id,
    type: row.type,
    sandboxID: row.sandbox_id,
    status: row.status,
    attempts: row.attempts,
    createdAt: row.created_at,
    nextAt: row.next_at,
    endedAt: row.ended_at,
    lastStatus: row.last_status,
    lastError: row.last_error,
  }
}

function dueOf(row: WebhookDeliveryRow): Omit<DueDelivery, 'url' | 'secret'> {
  const { deliveryID, webhookID, sandboxID, attempts, createdAt } = deliveryOf(row)
  return { deliveryID, webhookID, sandboxID, attempts, createdAt, teamID: row.team_id, body: row.body }
}
