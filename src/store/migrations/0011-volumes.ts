import type { Kysely } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('volumes')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('size_mb', 'bigint', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('volumes_by_name', ['team_id', 'name'])
    .execute()
  await schema
    .createTable('sandbox_volumes')
    .addColumn('sandbox_id', 'text', (column) =>
      column.notNull().references('sandboxes.id').onDelete('cascade'),
    )
    .addColumn('volume_id', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('sandbox_volumes_key', ['sandbox_id', 'volume_id'])
    .execute()
  await schema
    .createIndex('sandbox_volumes_by_volume')
    .on('sandbox_volumes')
    .columns(['volume_id', 'sandbox_id'])
    .execute()
}
