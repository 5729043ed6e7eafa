/**
 * Every sandbox, build and cached step belongs to the Warren that made it, its node: only that node acts on
 * it.
 */
import type { Kysely } from 'kysely'
import type { Tables } from '../database/tables.ts'

/** The node ID of a Warren that has its database to itself. */
export const soleNode = 'sole'

/** Takes over the rows that were written before rows had owners. */
export async function adoptRows(db: Kysely<Tables>, nodeID: string): Promise<void> {
  await db.transaction().execute(async (transaction) => {
    const node_id = nodeID
    await transaction.updateTable('sandboxes').set({ node_id }).where('node_id', 'is', null).execute()
    await transaction.updateTable('template_builds').set({ node_id }).where('node_id', 'is', null).execute()
    await transaction.updateTable('build_cache').set({ node_id }).where('node_id', '=', '').execute()
  })
}
