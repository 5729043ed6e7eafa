import type { Kysely } from 'kysely'

export async function up({ schema }: Kysely<never>): Promise<void> {
  await schema.alterTable('template_builds').addColumn('start_request', 'text').execute()
}
