import { type Kysely, sql } from 'kysely'

/**
 * Ended rows stay for days and outnumber the others by far, so only the last index has them. The index itself
 * holds the values that limits and admission add up.
 */
export async function up({ schema }: Kysely<never>): Promise<void> {
  for (const name of ['sandboxes_by_team', 'sandboxes_by_end', 'sandboxes_frozen'])
    await schema.dropIndex(name).execute()
  const state = sql.ref('state')
  const sums = ['state', 'cpu_count', 'memory_mb', 'is_frozen']
  const index = (name: string, columns: string[]) =>
    schema
      .createIndex(name)
      .on('sandboxes')
      .columns(columns as never[])
  await index('sandboxes_listed', ['team_id', 'started_at desc', 'id']).where(state, '<>', 'ended').execute()
  await index('sandboxes_of_team', ['team_id', ...sums, 'node_id', 'id'])
    .where(state, '<>', 'ended')
    .execute()
  await index('sandboxes_of_node', ['node_id', 'id', ...sums])
    .where(state, '<>', 'ended')
    .execute()
  await index('sandboxes_due', ['node_id', 'end_at', 'id']).where(state, '=', 'running').execute()
  await index('sandboxes_ended', ['ended_at']).where(state, '=', 'ended').execute()
  await schema
    .createIndex('sandbox_metadata_by_pair')
    .on('sandbox_metadata')
    .columns(['pair_hash', 'sandbox_id'])
    .execute()
}
