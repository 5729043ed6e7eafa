import type { Kysely } from 'kysely'

export const phase = 'expand'

/** A number that changes whenever a sandbox changes hands, state, run or snapshot, so that an earlier row is known to be old. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .alterTable('sandboxes')
    .addColumn('version', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute()
}
