import type { Kysely } from 'kysely'

/** Whether the object store has the bytes of a build or of a paused sandbox too, and what their memory needs of a machine. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  for (const table of ['template_builds', 'sandboxes']) {
    await schema.alterTable(table).addColumn('stored_at', 'bigint').execute()
    await schema.alterTable(table).addColumn('stored_needs', 'text').execute()
  }
}
