import { type Kysely, sql } from 'kysely'

/** Number of GPUs of builds and sandboxes, the limit of a team, and metrics of GPUs. */
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
  // Few sandboxes have a GPU, so this index is enough to sum up the GPUs of a team.
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
