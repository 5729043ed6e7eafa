import type { Kysely } from 'kysely'

export const phase = 'expand'

/**
 * A number that changes whenever a sandbox changes hands, state, run or snapshot, so that an earlier row is known to be old. And the
 * checksum of what the object store has, so that no other object is taken for it.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .alterTable('sandboxes')
    .addColumn('version', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
  for (const table of ['sandboxes', 'template_builds'])
    await schema.alterTable(table).addColumn('stored_index', 'text').execute()
}
