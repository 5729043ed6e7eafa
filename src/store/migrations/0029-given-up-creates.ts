import type { Kysely } from 'kysely'

export const phase = 'expand'

/**
 * Attempts to have a create carried out by another node, whose answer was lost. The node that got the request gave them up, so
 * the other node must not insert the sandbox any more. Rows are removed when they are as old as forgotten idempotency keys.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('given_up_creates')
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id').onDelete('cascade'))
    .addColumn('key_hash', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('given_up_creates_key', ['team_id', 'key_hash'])
    .execute()
}
