import type { Kysely } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('sandbox_metrics')
    .addColumn('sandbox_id', 'text', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('cpu_count', 'integer', (column) => column.notNull())
    .addColumn('cpu_used_pct', 'double precision', (column) => column.notNull())
    .addColumn('memory_used_bytes', 'bigint', (column) => column.notNull())
    .addColumn('memory_cache_bytes', 'bigint', (column) => column.notNull())
    .addColumn('memory_total_bytes', 'bigint', (column) => column.notNull())
    .addColumn('disk_used_bytes', 'bigint', (column) => column.notNull())
    .addColumn('disk_total_bytes', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('sandbox_metrics_key', ['sandbox_id', 'at'])
    .execute()
  await schema.createIndex('sandbox_metrics_by_time').on('sandbox_metrics').column('at').execute()
}
