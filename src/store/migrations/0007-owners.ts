import type { Kysely } from 'kysely'
import type { Tables } from '../database/tables.ts'

/** The Warren whose data folder wrote rows without an owner adopts them: see `adoptRows`. */
export async function up(db: Kysely<Tables>): Promise<void> {
  const { schema } = db
  await schema.alterTable('sandboxes').addColumn('node_id', 'text').execute()
  await schema.alterTable('template_builds').addColumn('node_id', 'text').execute()
  // The owner becomes part of the key, which SQLite cannot alter, so the table is created anew.
  const steps = await db.selectFrom('build_cache').selectAll().execute()
  await schema.dropTable('build_cache').execute()
  await schema
    .createTable('build_cache')
    .addColumn('node_id', 'text', (column) => column.notNull())
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
    .addPrimaryKeyConstraint('build_cache_key', ['node_id', 'team_id', 'key'])
    .execute()
  await schema.createIndex('build_cache_by_use').on('build_cache').column('last_used_at').execute()
  for (const step of steps) {
    await db
      .insertInto('build_cache')
      .values({ ...step, node_id: '' })
      .execute()
  }
}
