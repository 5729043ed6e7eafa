import type { Kysely } from 'kysely'

/** Objects that a node is about to remove from the object store, or may have removed. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('condemned_objects')
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('condemned_objects_key', ['key', 'node_id'])
    .execute()
}
