import { type Kysely, sql } from 'kysely'

/** GPUs of builds and sandboxes, what a team may have of them, and what they do. */
export async function up({ schema }: Kysely<never>): Promise<void> {
  for (const table of ['template_builds', 'sandboxes']) {
    await schema
      .alterTable(table)
      .addColumn('gpu_count', 'integer', (column) => column.notNull().defaultTo(0))
      .execute()
  }
  await schema
    .alterTable('teams')
    .addColumn('max_gpus', 'bigint', (column) => column.notNull().defaultTo(8))
    .execute()
  // Few sandboxes have one, so what a team has of them is summed up over this index.
  await schema
    .createIndex('sandboxes_with_gpus')
    .on('sandboxes')
    .columns(['team_id', 'state'] as never[])
    .where(sql.ref('gpu_count'), '>', sql.lit(0))
    .execute()
  for (const column of ['gpu_memory_used_bytes', 'gpu_memory_total_bytes']) {
    await schema.alterTable('sandbox_metrics').addColumn(column, 'bigint').execute()
  }
  await schema.alterTable('sandbox_metrics').addColumn('gpu_busy_pct', 'double precision').execute()
}
