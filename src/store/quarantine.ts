import type { Kysely } from 'kysely'
import type { QuarantinedSnapshot, QuarantineStore } from '../core/stores.ts'
import type { QuarantineRow, Tables } from './tables.ts'

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
      .executeTakeFirst()
    return row && entryOf(row)
  }

  async list(nodeID: string): Promise<QuarantinedSnapshot[]> {
    const rows = await this.#db
      .selectFrom('quarantine')
      .selectAll()
      .where('node_id', '=', nodeID)
      .orderBy('since')
      .orderBy('snapshot_name')
      .execute()
    return rows.map(entryOf)
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
