import { type Kysely, sql } from 'kysely'

/**
 * Lets queries find sandboxes that are killed at the end of their timeout separately from those that are
 * paused then.
 */
export async function up(db: Kysely<never>): Promise<void> {
  const { schema } = db
  await schema
    .alterTable('sandboxes')
    .addColumn('auto_pause', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await sql`update sandboxes set auto_pause = 1 where options like '%"autoPause":true%'`.execute(db)
  await schema.dropIndex('sandboxes_due').execute()
  await schema
    .createIndex('sandboxes_due')
    .on('sandboxes')
    .columns(['node_id', 'auto_pause', 'end_at', 'id'] as never[])
    .where(sql.ref('state'), '=', 'running')
    .execute()
}
