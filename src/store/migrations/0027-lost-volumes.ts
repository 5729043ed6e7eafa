import type { Kysely } from 'kysely'

export const phase = 'expand'

/** Volumes that were lost with a forgotten node, so that the operator can recover them if their disks come back. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('lost_volumes')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('size_mb', 'bigint', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('lost_at', 'bigint', (column) => column.notNull())
    .addColumn('found_at', 'bigint')
    .execute()
}
