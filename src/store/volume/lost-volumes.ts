import type { Kysely, Transaction } from 'kysely'
import type { LostVolume, LostVolumeStore } from '../../core/volume/lost-volume-store.ts'
import type { LostVolumeRow, Tables } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'

/** Moves the ready volumes of a forgotten node to the lost ones. Returns the number of volumes that it had. */
export async function loseVolumes(
  transaction: Transaction<Tables>,
  nodeID: string,
  at: number,
): Promise<number> {
  const gone = await transaction.deleteFrom('volumes').where('node_id', '=', nodeID).returningAll().execute()
  // No client knows a volume that is being created, and nobody wants one back that is being deleted.
  const ready = gone.filter(({ state }) => state === 'ready')
  for (const { state, ...volume } of ready) {
    await transaction
      .insertInto('lost_volumes')
      .values({ ...volume, lost_at: at, found_at: null })
      .execute()
  }
  return gone.length
}

export class SqlLostVolumeStore implements LostVolumeStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  async list(): Promise<LostVolume[]> {
    const rows = await this.#db
      .selectFrom('lost_volumes')
      .selectAll()
      .orderBy('lost_at')
      .orderBy('id')
      .execute()
    return rows.map(lostVolumeOf)
  }

  async find(volumeID: string): Promise<LostVolume | undefined> {
    const row = await this.#db
      .selectFrom('lost_volumes')
      .selectAll()
      .where('id', '=', volumeID)
      .executeTakeFirst()
    return row && lostVolumeOf(row)
  }

  async noteFound(volumeID: string, at: number): Promise<LostVolume | undefined> {
    await this.#db
      .updateTable('lost_volumes')
      .set({ node_id: this.#nodeID, found_at: at })
      .where('id', '=', volumeID)
      .where('found_at', 'is', null)
      .execute()
    return this.find(volumeID)
  }

  async noteMissing(disks: ReadonlySet<string>): Promise<void> {
    const found = await this.#db
      .selectFrom('lost_volumes')
      .select('id')
      .where('node_id', '=', this.#nodeID)
      .where('found_at', 'is not', null)
      .execute()
    for (const { id } of found.filter((row) => !disks.has(row.id))) {
      await this.#db
        .updateTable('lost_volumes')
        .set({ found_at: null })
        .where('id', '=', id)
        .where('node_id', '=', this.#nodeID)
        .execute()
    }
  }

  recover(volumeID: string, name: string): Promise<boolean> {
    const transactions = this.#db.transaction().setIsolationLevel('read committed')
    return transactions.execute(async (transaction) => {
      const entry = await transaction
        .selectFrom('lost_volumes')
        .select('team_id')
        .where('id', '=', volumeID)
        .executeTakeFirst()
      if (!entry) return false
      // Before the entry, in the order in which the deletion of a team locks them.
      await lockTeam(transaction, entry.team_id)
      const lost = await transaction
        .deleteFrom('lost_volumes')
        .where('id', '=', volumeID)
        .returningAll()
        .executeTakeFirst()
      if (!lost) return false
      const { lost_at, found_at, ...volume } = lost
      await transaction
        .insertInto('volumes')
        .values({ ...volume, node_id: this.#nodeID, name, state: 'ready' })
        .execute()
      return true
    })
  }
}

const lostVolumeOf = (row: LostVolumeRow): LostVolume => ({
  volumeID: row.id,
  nodeID: row.node_id,
  teamID: row.team_id,
  name: row.name,
  sizeMB: row.size_mb,
  createdAt: row.created_at,
  lostAt: row.lost_at,
  foundAt: row.found_at,
})
