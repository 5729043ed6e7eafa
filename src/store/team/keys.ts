import type { Kysely } from 'kysely'
import type { ApiKey, Team } from '../../core/team/team.ts'
import type { KeyStore } from '../../core/team/team-store.ts'
import type { ApiKeyRow, Tables } from '../database/tables.ts'
import { teamOf } from './teams.ts'

export class SqlKeyStore implements KeyStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insertKey(key: ApiKey & { hash: string }): Promise<void> {
    await this.#db.insertInto('api_keys').values(keyRow(key)).execute()
  }

  async findByHash(hash: string): Promise<{ key: ApiKey; hash: string; team: Team } | undefined> {
    const row = await this.#db
      .selectFrom('api_keys')
      .innerJoin('teams', 'teams.id', 'api_keys.team_id')
      .selectAll('teams')
      .select(['api_keys.id as key_id', 'team_id', 'hash', 'mask_prefix', 'mask_suffix'])
      .select([
        'last_used_at',
        'revoked_at',
        'api_keys.name as key_name',
        'api_keys.created_at as key_created_at',
      ])
      .where('hash', '=', hash)
      .where('revoked_at', 'is', null)
      .executeTakeFirst()
    if (!row) return undefined
    const key = keyOf({ ...row, id: row.key_id, name: row.key_name, created_at: row.key_created_at })
    return { key, hash: row.hash, team: teamOf(row) }
  }

  async listKeys(teamID: string): Promise<ApiKey[]> {
    const rows = await this.#db
      .selectFrom('api_keys')
      .selectAll()
      .where('team_id', '=', teamID)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
    return rows.map(keyOf)
  }

  async countLiveKeys(teamID: string): Promise<number> {
    const row = await this.#db
      .selectFrom('api_keys')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('team_id', '=', teamID)
      .where('revoked_at', 'is', null)
      .executeTakeFirstOrThrow()
    return Number(row.count)
  }

  async revokeKey(teamID: string, keyID: string, at: number): Promise<boolean> {
    const updated = await this.#db
      .updateTable('api_keys')
      .set({ revoked_at: at })
      .where('team_id', '=', teamID)
      .where('id', '=', keyID)
      .where('revoked_at', 'is', null)
      .executeTakeFirstOrThrow()
    return updated.numUpdatedRows > 0n
  }

  async renameKey(teamID: string, keyID: string, name: string): Promise<boolean> {
    const updated = await this.#db
      .updateTable('api_keys')
      .set({ name })
      .where('team_id', '=', teamID)
      .where('id', '=', keyID)
      .where('revoked_at', 'is', null)
      .executeTakeFirstOrThrow()
    return updated.numUpdatedRows > 0n
  }

  async touchKey(keyID: string, at: number): Promise<void> {
    await this.#db
      .updateTable('api_keys')
      .set({ last_used_at: at })
      .where('id', '=', keyID)
      .where((where) => where.or([where('last_used_at', 'is', null), where('last_used_at', '<', at)]))
      .execute()
  }
}

export function keyRow(key: ApiKey & { hash: string }): ApiKeyRow {
  return {
    id: key.keyID,
    team_id: key.teamID,
    hash: key.hash,
    name: key.name,
    mask_prefix: key.maskPrefix,
    mask_suffix: key.maskSuffix,
    created_at: key.createdAt,
    last_used_at: key.lastUsedAt,
    revoked_at: key.revokedAt,
  }
}

function keyOf(row: ApiKeyRow): ApiKey {
  return {
    keyID: row.id,
    teamID: row.team_id,
    name: row.name,
    maskPrefix: row.mask_prefix,
    maskSuffix: row.mask_suffix,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    revokedAt: row.revoked_at,
  }
}
