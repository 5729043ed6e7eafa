import type { Kysely } from 'kysely'
import type { BuildCacheStore, CachedStep, CacheUse } from '../../core/template/build-cache-store.ts'
import type { BuildCacheRow, Tables } from '../database/tables.ts'

export class SqlBuildCacheStore implements BuildCacheStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  /** The cache of this node only: its snapshots and layers are on no other machine. */
  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  async find(teamID: string, key: string, at: number): Promise<CachedStep | undefined> {
    const row = await this.#db
      .updateTable('build_cache')
      .set({ last_used_at: at })
      .where('team_id', '=', teamID)
      .where('key', '=', key)
      .where('node_id', '=', this.#nodeID)
      .returningAll()
      .executeTakeFirst()
    return row && stepOf(row)
  }

  async put(teamID: string, step: CachedStep, at: number): Promise<void> {
    const row = { node_id: this.#nodeID, ...rowOf(teamID, step, at) }
    const { node_id: _node, team_id: _team, key: _key, ...rest } = row
    await this.#db
      .insertInto('build_cache')
      .values(row)
      .onConflict((conflict) => conflict.columns(['node_id', 'team_id', 'key']).doUpdateSet(rest))
      .execute()
  }

  async listSnapshotNames(): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('build_cache')
      .select('saved_name')
      .distinct()
      .where('saved_name', 'is not', null)
      .where('node_id', '=', this.#nodeID)
      .$narrowType<{ saved_name: string }>()
      .execute()
    return rows.map(({ saved_name }) => saved_name)
  }

  async list(): Promise<CacheUse[]> {
    const rows = await this.#db
      .selectFrom('build_cache')
      .select(['team_id', 'key', 'saved_name', 'layers', 'last_used_at'])
      .where('node_id', '=', this.#nodeID)
      .orderBy('last_used_at')
      .orderBy('team_id')
      .orderBy('key')
      .execute()
    return rows.map((row) => ({
      teamID: row.team_id,
      key: row.key,
      snapshotName: row.saved_name,
      layers: row.layers === null ? null : JSON.parse(row.layers),
      usedAt: row.last_used_at,
    }))
  }

  async remove(steps: readonly CacheUse[]): Promise<CacheUse[]> {
    const removed: CacheUse[] = []
    for (const step of steps) {
      const { numDeletedRows } = await this.#db
        .deleteFrom('build_cache')
        .where('team_id', '=', step.teamID)
        .where('key', '=', step.key)
        .where('node_id', '=', this.#nodeID)
        .where('last_used_at', '=', step.usedAt)
        .executeTakeFirstOrThrow()
      if (numDeletedRows > 0n) removed.push(step)
    }
    return removed
  }
}

function rowOf(teamID: string, step: CachedStep, at: number): Omit<BuildCacheRow, 'node_id'> {
  return {
    team_id: teamID,
    key: step.key,
    saved_name: step.snapshotName,
    layers: step.layers && JSON.stringify(step.layers),
    root_folder: step.rootFolder,
    env_vars: JSON.stringify(step.envVars),
    user_name: step.user,
    workdir: step.workdir,
    created_at: at,
    last_used_at: at,
  }
}

function stepOf(row: BuildCacheRow): CachedStep {
  return {
    key: row.key,
    snapshotName: row.saved_name,
    layers: row.layers === null ? null : JSON.parse(row.layers),
    rootFolder: row.root_folder,
    envVars: JSON.parse(row.env_vars),
    user: row.user_name,
    workdir: row.workdir,
  }
}
