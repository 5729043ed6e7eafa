import { type Kysely, sql } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  // One column per statement: SQLite adds no more at once.
  await schema.alterTable('sandboxes').addColumn('saved', 'text').execute()
  await schema
    .alterTable('sandboxes')
    .addColumn('is_frozen', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await schema
    .createIndex('sandboxes_frozen')
    .on('sandboxes')
    .columns(['team_id', 'state'])
    .where(sql.ref('is_frozen'), '=', 1)
    .execute()
  await schema.alterTable('template_builds').addColumn('saved_name', 'text').execute()
  await schema.alterTable('template_builds').addColumn('saved_memory', 'integer').execute()
  await schema.alterTable('template_builds').addColumn('source_sandbox_id', 'text').execute()
  await schema
    .alterTable('templates')
    .addColumn('is_snapshot', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
}
