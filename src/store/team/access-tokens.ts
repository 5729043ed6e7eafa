import type { Kysely } from 'kysely'
import type { AccessToken, ApiKey, FoundKey } from '../../core/team/team.ts'
import type { AccessTokenStore } from '../../core/team/team-store.ts'
import type { AccessTokenRow, Tables } from '../database/tables.ts'
import { findKey, keyRow } from './keys.ts'

export class SqlAccessTokenStore implements AccessTokenStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insert(token: AccessToken & { hash: string }, key: ApiKey & { hash: string }): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      await transaction.insertInto('api_keys').values(keyRow(key)).execute()
      await transaction.insertInto('access_tokens').values(rowOf(token)).execute()
    })
  }

  async findByHash(...hashes: string[]): Promise<(FoundKey & { token: AccessToken }) | undefined> {
    const row = await this.#db
      .selectFrom('access_tokens')
      .selectAll()
      .where('hash', 'in', hashes)
      .where('revoked_at', 'is', null)
      .executeTakeFirst()
    if (!row) return undefined
    const found = await findKey(this.#db, (query) => query.where('api_keys.id', '=', row.key_id))
    return found && { ...found, token: tokenOf(row), hash: row.hash }
  }

  async revoke(teamID: string, tokenID: string, at: number, personID?: string): Promise<boolean> {
    return this.#db.transaction().execute(async (transaction) => {
      const update = transaction
        .updateTable('access_tokens')
        .set({ revoked_at: at })
        .where('team_id', '=', teamID)
        .where('id', '=', tokenID)
        .where('revoked_at', 'is', null)
      const ofPerson = transaction
        .selectFrom('api_keys')
        .select('id')
        .where('person_id', '=', personID ?? null)
      const allowed = personID === undefined ? update : update.where('key_id', 'in', ofPerson)
      const revoked = await allowed.returning('key_id').executeTakeFirst()
      if (!revoked) return false
      await transaction
        .updateTable('api_keys')
        .set({ revoked_at: at })
        .where('id', '=', revoked.key_id)
        .where('revoked_at', 'is', null)
        .execute()
      return true
    })
  }
}

function rowOf(token: AccessToken & { hash: string }): AccessTokenRow {
  return {
    id: token.tokenID,
    team_id: token.teamID,
    hash: token.hash,
    name: token.name,
    mask_prefix: token.maskPrefix,
    mask_suffix: token.maskSuffix,
    key_id: token.keyID,
    created_at: token.createdAt,
    revoked_at: token.revokedAt,
  }
}

function tokenOf(row: AccessTokenRow): AccessToken {
  return {
    tokenID: row.id,
    teamID: row.team_id,
    name: row.name,
    maskPrefix: row.mask_prefix,
    maskSuffix: row.mask_suffix,
    createdAt: row.created_at,
    revokedAt: row.revoked_at,
    keyID: row.key_id,
  }
}
