import type { Kysely } from 'kysely'

export const phase = 'expand'

/** The lines of the audit. They reference no team: they outlive it. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('audit_lines')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('team_id', 'text')
    .addColumn('person_id', 'text')
    .addColumn('person', 'text')
    .addColumn('credential', 'text', (column) => column.notNull())
    .addColumn('credential_id', 'text')
    .addColumn('address', 'text', (column) => column.notNull())
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('object', 'text')
    .addColumn('request_id', 'text', (column) => column.notNull())
    .addColumn('status', 'integer')
    .addColumn('finished_at', 'bigint')
    .execute()
  const index = (name: string) => schema.createIndex(name).on('audit_lines')
  await index('audit_lines_by_team').columns(['team_id', 'at', 'id']).execute()
  await index('audit_lines_by_time').columns(['at', 'id']).execute()
  await index('audit_lines_by_answer').column('finished_at').execute()
}
