import type { Kysely, Transaction } from 'kysely'
import type { QuarantinedSnapshot, QuarantineStore } from '../../core/sandbox/snapshots/quarantine-store.ts'
import type { QuarantineRow, Tables } from '../database/tables.ts'

/** The time in entries of snapshots that are marked for removal: earlier than any quarantine. */
const removableSince = 0

/** Marks these snapshots for removal by the nodes that have them. */
export async function markForRemoval(
  db: Kysely<Tables>,
  snapshots: readonly { snapshotName: string; nodeID: string }[],
): Promise<void> {
  if (snapshots.length === 0) return
  await db
    .insertInto('quarantine')
    .values(
      snapshots.map(({ snapshotName, nodeID }) => ({
        snapshot_name: snapshotName,
        node_id: nodeID,
        sandbox_id: null,
        reason: 'Its template was deleted.',
        since: removableSince,
      })),
    )
    .onConflict((conflict) => conflict.column('snapshot_name').doNothing())
    .execute()
}

/**
 * Locks the entry until the transaction ends, so that nobody else recovers the snapshot. False if there is no
 * such entry.
 */
export async function lockQuarantined(
  transaction: Transaction<Tables>,
  snapshotName: string,
): Promise<boolean> {
  const { numUpdatedRows } = await transaction
    .updateTable('quarantine')
    .set((set) => ({ since: set.ref('since') }))
    .where('snapshot_name', '=', snapshotName)
    .where('since', '!=', removableSince)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

export class SqlQuarantineStore implements QuarantineStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insert({ snapshotName, nodeID, sandboxID, reason, since }: QuarantinedSnapshot): Promise<void> {
    const row = { snapshot_name: snapshotName, node_id: nodeID, sandbox_id: sandboxID, reason, since }
    await this.#db
      .insertInto('quarantine')
      .values(row)
      .onConflict((conflict) => conflict.column('snapshot_name').doNothing())
      .execute()
  }

  async find(snapshotName: string): Promise<QuarantinedSnapshot | undefined> {
    const row = await this.#db
      .selectFrom('quarantine')
      .selectAll()
      .where('snapshot_name', '=', snapshotName)
      .where('since', '!=', removableSince)
      .executeTakeFirst()
    return row && entryOf(row)
  }

  async list(nodeID?: string): Promise<QuarantinedSnapshot[]> {
    const rows = await this.#db
      .selectFrom('quarantine')
      .selectAll()
      .where('since', '!=', removableSince)
      .$if(nodeID !== undefined, (query) => query.where('node_id', '=', nodeID!))
      .orderBy('since')
      .orderBy('snapshot_name')
      .execute()
    return rows.map(entryOf)
  }

  async markForRemoval(snapshotName: string): Promise<void> {
    await this.#db
      .updateTable('quarantine')
      .set({ since: removableSince })
      .where('snapshot_name', '=', snapshotName)
      .execute()
  }

  async listRemovable(nodeID: string): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('quarantine')
      .select('snapshot_name')
      .where('node_id', '=', nodeID)
      .where('since', '=', removableSince)
      .execute()
    return rows.map(({ snapshot_name }) => snapshot_name)
  }

  async remove(snapshotName: string): Promise<void> {
    await this.#db.deleteFrom('quarantine').where('snapshot_name', '=', snapshotName).execute()
  }
}

const entryOf = (row: QuarantineRow): QuarantinedSnapshot => ({
  snapshotName: row.snapshot_name,
  nodeID: row.node_id,
  sandboxID: row.sandbox_id,
  reason: row.reason,
  since: row.since,
})
