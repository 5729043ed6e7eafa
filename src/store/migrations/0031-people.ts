import type { Kysely } from 'kysely'

export const phase = 'expand'

/**
 * People, their roles in teams, and whose a key and a sandbox is. Keys of before belong to their team, with the role of an owner, and
 * never end.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('people')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('issuer', 'text')
    .addColumn('subject', 'text')
    .addColumn('email', 'text')
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('is_operator', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('last_sign_in_at', 'bigint')
    .addColumn('removed_at', 'bigint')
    .addUniqueConstraint('people_by_subject', ['issuer', 'subject'])
    .execute()
  await schema.createIndex('people_by_email').on('people').column('email').execute()
  await schema
    .createTable('team_members')
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id').onDelete('cascade'))
    .addColumn('person_id', 'text', (column) => column.notNull().references('people.id').onDelete('cascade'))
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('added_at', 'bigint', (column) => column.notNull())
    .addColumn('added_by', 'text')
    .addPrimaryKeyConstraint('team_members_key', ['team_id', 'person_id'])
    .execute()
  await schema.createIndex('team_members_by_person').on('team_members').column('person_id').execute()
  const keys = () => schema.alterTable('api_keys')
  await keys()
    .addColumn('role', 'text', (column) => column.notNull().defaultTo('owner'))
    .execute()
  await keys().addColumn('person_id', 'text').execute()
  await keys().addColumn('made_by', 'text').execute()
  await keys().addColumn('expires_at', 'bigint').execute()
  await keys().addColumn('last_used_from', 'text').execute()
  await schema.alterTable('sandboxes').addColumn('owner_person_id', 'text').execute()
  await schema
    .createIndex('api_keys_by_person')
    .on('api_keys')
    .columns(['person_id', 'team_id'])
    .where('person_id' as never, 'is not', null)
    .execute()
}
