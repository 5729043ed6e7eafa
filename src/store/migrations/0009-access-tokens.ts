import type { Kysely } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('access_tokens')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id'))
    .addColumn('hash', 'text', (column) => column.notNull().unique())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('mask_prefix', 'text', (column) => column.notNull())
    .addColumn('mask_suffix', 'text', (column) => column.notNull())
    .addColumn('key_id', 'text', (column) => column.notNull().references('api_keys.id'))
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('revoked_at', 'bigint')
    .execute()
  await schema.createIndex('access_tokens_by_team').on('access_tokens').column('team_id').execute()
  // Does not reference the node: its samples stay when it is forgotten.
  await schema
    .createTable('team_metrics')
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id').onDelete('cascade'))
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('concurrent_sandboxes', 'integer', (column) => column.notNull())
    .addColumn('started_sandboxes', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('team_metrics_key', ['team_id', 'at', 'node_id'])
    .execute()
  await schema.createIndex('team_metrics_by_time').on('team_metrics').column('at').execute()
}
