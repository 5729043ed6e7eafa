import type { Kysely } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema.alterTable('sandboxes').addColumn('move_id', 'text').execute()
  await schema
    .createTable('quarantine')
    .addColumn('snapshot_name', 'text', (column) => column.primaryKey())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('sandbox_id', 'text')
    .addColumn('reason', 'text', (column) => column.notNull())
    .addColumn('since', 'bigint', (column) => column.notNull())
    .execute()
  await schema.createIndex('quarantine_sandbox').on('quarantine').column('sandbox_id').execute()
}
