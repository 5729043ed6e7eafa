import type { Kysely } from 'kysely'

/**
 * When the object store got the bytes of a build or a paused sandbox, and what their memory requires of a
 * machine.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  for (const table of ['template_builds', 'sandboxes']) {
    await schema.alterTable(table).addColumn('stored_at', 'bigint').execute()
    await schema.alterTable(table).addColumn('stored_needs', 'text').execute()
  }
}
