import type { Kysely } from 'kysely'

/** Whether clients of a team may be older than access tokens. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .alterTable('teams')
    .addColumn('older_clients', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
}
