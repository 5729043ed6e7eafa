import { type Kysely, sql } from 'kysely'

/** Until when a sandbox that a drain has paused is to run again; null in all other rows. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema.alterTable('sandboxes').addColumn('run_until', 'bigint').execute()
  await schema
    .createIndex('sandboxes_departed')
    .on('sandboxes')
    .columns(['run_until', 'id'])
    .where(sql.ref('run_until'), 'is not', null)
    .execute()
}
