import type { Kysely } from 'kysely'

export const phase = 'expand'

/** Sessions of people who signed in with a provider. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('sessions')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('person_id', 'text', (column) => column.notNull().references('people.id').onDelete('cascade'))
    .addColumn('hash', 'text', (column) => column.notNull().unique())
    // A sign-in makes one session at most, also if the browser repeats its last step.
    .addColumn('attempt_hash', 'text', (column) => column.notNull().unique())
    .addColumn('id_token_key', 'text')
    .addColumn('id_token', 'text')
    .addColumn('user_agent', 'text')
    .addColumn('address', 'text')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('last_used_at', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addColumn('ended_at', 'bigint')
    .execute()
  await schema.createIndex('sessions_by_person').on('sessions').column('person_id').execute()
  await schema.createIndex('sessions_by_end').on('sessions').column('expires_at').execute()
}
