import type { Kysely } from 'kysely'

export const phase = 'expand'

/** When a node last did not find the bytes of a stored build in the object store. The node that built it looks, and clears this. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema.alterTable('template_builds').addColumn('doubted_at', 'bigint').execute()
}
