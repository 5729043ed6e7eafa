import { type Kysely, sql } from 'kysely'

/**
 * Events and deliveries have no references to other tables: an event outlives its sandbox, and the deletion
 * of a webhook while an event is written must not make the sandbox's change fail.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .alterTable('sandboxes')
    .addColumn('event_count', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await schema
    .createTable('sandbox_events')
    .addColumn('id', 'text', (column) => column.notNull())
    .addColumn('team_id', 'text', (column) => column.notNull())
    .addColumn('sandbox_id', 'text', (column) => column.notNull())
    .addColumn('number', 'integer', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('template_id', 'text', (column) => column.notNull())
    .addColumn('build_id', 'text', (column) => column.notNull())
    .addColumn('run_id', 'text', (column) => column.notNull())
    .addColumn('data', 'text', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('sandbox_events_key', ['sandbox_id', 'number'])
    .execute()
  await schema
    .createIndex('sandbox_events_by_team')
    .on('sandbox_events')
    .columns(['team_id', 'at', 'sandbox_id', 'number'])
    .execute()
  await schema
    .createTable('webhooks')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('url', 'text', (column) => column.notNull())
    .addColumn('is_enabled', 'integer', (column) => column.notNull())
    .addColumn('events', 'text', (column) => column.notNull())
    .addColumn('secret_key_id', 'text', (column) => column.notNull())
    .addColumn('secret_sealed', 'text', (column) => column.notNull())
    .addColumn('failing_since', 'bigint')
    .addColumn('last_error', 'text')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute()
  await schema.createIndex('webhooks_by_team').on('webhooks').column('team_id').execute()
  await createDeliveries(schema)
  await schema
    .createTable('leases')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('until', 'bigint', (column) => column.notNull())
    .execute()
}

async function createDeliveries(schema: Kysely<never>['schema']): Promise<void> {
  await schema
    .createTable('webhook_deliveries')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('webhook_id', 'text', (column) => column.notNull())
    .addColumn('team_id', 'text', (column) => column.notNull())
    .addColumn('sandbox_id', 'text', (column) => column.notNull())
    .addColumn('number', 'integer', (column) => column.notNull())
    .addColumn('event_id', 'text', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('body', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('attempts', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('next_at', 'bigint', (column) => column.notNull())
    .addColumn('ended_at', 'bigint')
    .addColumn('last_status', 'integer')
    .addColumn('last_error', 'text')
    .execute()
  const index = (name: string, columns: string[]) =>
    schema
      .createIndex(name)
      .on('webhook_deliveries')
      .columns(columns as never[])
  await index('webhook_deliveries_listed', ['webhook_id', 'created_at', 'id']).execute()
  // Waiting deliveries are few among the stored ones.
  const status = sql.ref('status')
  await index('webhook_deliveries_due', ['webhook_id', 'next_at']).where(status, '=', 'pending').execute()
  await index('webhook_deliveries_in_order', ['webhook_id', 'sandbox_id', 'number'])
    .where(status, '=', 'pending')
    .execute()
}
