import type { Kysely } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema.alterTable('template_builds').addColumn('layers', 'text').execute()
  await schema.alterTable('template_builds').addColumn('reason_message', 'text').execute()
  await schema.alterTable('template_builds').addColumn('reason_step', 'text').execute()
  await schema
    .createIndex('template_builds_by_status')
    .on('template_builds')
    .columns(['status', 'updated_at'])
    .execute()
  await schema
    .createTable('build_cache')
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id'))
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('saved_name', 'text')
    .addColumn('layers', 'text')
    .addColumn('root_folder', 'text')
    .addColumn('env_vars', 'text', (column) => column.notNull())
    .addColumn('user_name', 'text', (column) => column.notNull())
    .addColumn('workdir', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('last_used_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('build_cache_key', ['team_id', 'key'])
    .execute()
  await schema.createIndex('build_cache_by_use').on('build_cache').column('last_used_at').execute()
}
