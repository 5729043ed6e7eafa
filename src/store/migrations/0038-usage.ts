import { type Kysely, sql } from 'kysely'

export const phase = 'expand'

/**
 * What teams used, by day. There is no reference to the team: what it used stays when it is deleted. A finished run is an event of
 * the type `paused` or `killed`; it is counted once, and the event says whether it was.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('usage_days')
    .addColumn('team_id', 'text', (column) => column.notNull())
    .addColumn('person_id', 'text', (column) => column.notNull())
    .addColumn('day', 'text', (column) => column.notNull())
    .addColumn('running_ms', 'bigint', (column) => column.notNull())
    .addColumn('cpu_ms', 'bigint', (column) => column.notNull())
    .addColumn('memory_mb_ms', 'bigint', (column) => column.notNull())
    .addColumn('gpu_ms', 'bigint', (column) => column.notNull())
    .addColumn('sent_bytes', 'bigint', (column) => column.notNull())
    .addColumn('stored_mb_ms', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('usage_days_key', ['team_id', 'day', 'person_id'])
    .execute()
  await schema.createIndex('usage_days_by_day').on('usage_days').column('day').execute()
  await schema
    .alterTable('sandbox_events')
    .addColumn('is_counted', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await schema
    .createIndex('sandbox_events_uncounted')
    .on('sandbox_events')
    .columns(['at', 'sandbox_id', 'number'])
    .where(sql.ref('is_counted'), '=', sql.lit(0))
    .where(sql.ref('type'), 'in', [sql.lit('paused'), sql.lit('killed')])
    .execute()
  await schema
    .createTable('team_budgets')
    .addColumn('team_id', 'text', (column) => column.primaryKey().references('teams.id').onDelete('cascade'))
    .addColumn('cpu_hours', 'double precision')
    .addColumn('gpu_hours', 'double precision')
    .addColumn('sent_gb', 'double precision')
    .execute()
}
