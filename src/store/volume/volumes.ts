import type { Kysely, SelectQueryBuilder } from 'kysely'
import type { Volume } from '../../core/volume/volume.ts'
import type { VolumeStore } from '../../core/volume/volume-store.ts'
import type { Tables, VolumeRow } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'
import { isUnended } from '../usage/sandbox-counts.ts'

export class SqlVolumeStore implements VolumeStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  /**
   * Changes only the volumes of this node, and sees others only in the list of a team; names and limits apply
   * to all nodes together.
   */
  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  insert(volume: Volume, max: number): Promise<boolean> {
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      await lockTeam(locked, volume.teamID)
      const { count } = await locked
        .selectFrom('volumes')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('team_id', '=', volume.teamID)
        .executeTakeFirstOrThrow()
      if (count >= max) return false
      await locked.insertInto('volumes').values(rowOf(volume, this.#nodeID)).execute()
      return true
    })
  }

  markReady(volumeID: string): Promise<Volume | undefined> {
    return this.#endCreation(volumeID, 'ready')
  }

  cancelCreation(volumeID: string): Promise<Volume | undefined> {
    return this.#endCreation(volumeID, 'deleting')
  }

  async #endCreation(volumeID: string, to: 'ready' | 'deleting'): Promise<Volume | undefined> {
    const row = await this.#db
      .updateTable('volumes')
      .set({ state: to })
      .where('id', '=', volumeID)
      .where('state', '=', 'creating')
      .where('node_id', '=', this.#nodeID)
      .returningAll()
      .executeTakeFirst()
    return row && volumeOf(row)
  }

  async find(volumeID: string): Promise<Volume | undefined> {
    const row = await this.#rows().where('id', '=', volumeID).executeTakeFirst()
    return row && volumeOf(row)
  }

  async list(teamID: string): Promise<Volume[]> {
    const rows = await readyOf(this.#db.selectFrom('volumes').selectAll(), teamID).execute()
    return rows.map(volumeOf)
  }

  async listHere(teamID: string): Promise<Volume[]> {
    return (await readyOf(this.#rows(), teamID).execute()).map(volumeOf)
  }

  async listAll(): Promise<Volume[]> {
    return (await this.#rows().orderBy('created_at').orderBy('id').execute()).map(volumeOf)
  }

  beginDeletion(volumeID: string): ReturnType<VolumeStore['beginDeletion']> {
    // Each statement must see the commits that happened while this one waited for the volume's row.
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      const transition = (from: 'ready' | 'deleting', to: 'ready' | 'deleting') =>
        locked
          .updateTable('volumes')
          .set({ state: to })
          .where('id', '=', volumeID)
          .where('state', '=', from)
          .where('node_id', '=', this.#nodeID)
          .executeTakeFirstOrThrow()
      if ((await transition('ready', 'deleting')).numUpdatedRows === 0n) return undefined
      const users = await locked
        .selectFrom('sandboxes')
        .select('id')
        .where(isUnended)
        .where('id', 'in', (select) =>
          select.selectFrom('sandbox_volumes').select('sandbox_id').where('volume_id', '=', volumeID),
        )
        .orderBy('id')
        .execute()
      if (users.length === 0) return { begun: true }
      await transition('deleting', 'ready')
      return { usedBy: users.map(({ id }) => id) }
    })
  }

  async remove(volumeID: string): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      const { numDeletedRows } = await transaction
        .deleteFrom('volumes')
        .where('id', '=', volumeID)
        .where('state', '=', 'deleting')
        .where('node_id', '=', this.#nodeID)
        .executeTakeFirstOrThrow()
      if (numDeletedRows === 0n) return
      await transaction.deleteFrom('sandbox_volumes').where('volume_id', '=', volumeID).execute()
    })
  }

  #rows() {
    return this.#db.selectFrom('volumes').selectAll().where('node_id', '=', this.#nodeID)
  }
}

const readyOf = (query: SelectQueryBuilder<Tables, 'volumes', VolumeRow>, teamID: string) =>
  query.where('team_id', '=', teamID).where('state', '=', 'ready').orderBy('created_at').orderBy('id')

function rowOf(volume: Volume, nodeID: string): VolumeRow {
  return {
    id: volume.volumeID,
    node_id: nodeID,
    team_id: volume.teamID,
    name: volume.name,
    state: volume.state,
    size_mb: volume.sizeMB,
    created_at: volume.createdAt,
  }
}

const volumeOf = (row: VolumeRow): Volume => ({
  volumeID: row.id,
  teamID: row.team_id,
  name: row.name,
  state: row.state,
  sizeMB: row.size_mb,
  createdAt: row.created_at,
})
