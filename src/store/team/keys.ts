import type { Kysely } from 'kysely'
import type { ApiKey, FoundKey } from '../../core/team/team.ts'
import type { KeyStore } from '../../core/team/team-store.ts'
import type { ApiKeyRow, Tables } from '../database/tables.ts'
import { personOf } from '../person/people.ts'
import { teamOf } from './teams.ts'

export class SqlKeyStore implements KeyStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insertKey(key: ApiKey & { hash: string }): Promise<void> {
    await this.#db.insertInto('api_keys').values(keyRow(key)).execute()
  }

  findByHash(...hashes: string[]): Promise<FoundKey | undefined> {
    return findKey(this.#db, (query) => query.where('api_keys.hash', 'in', hashes))
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

  async countLiveKeys(teamID: string, now: number, personID?: string): Promise<number> {
    const query = this.#db
      .selectFrom('api_keys')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('team_id', '=', teamID)
      .where('revoked_at', 'is', null)
      .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', now)]))
    const some = personID === undefined ? query : query.where('person_id', '=', personID)
    return Number((await some.executeTakeFirstOrThrow()).count)
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

  async touchKey(keyID: string, at: number, from: string | null): Promise<void> {
    await this.#db
      .updateTable('api_keys')
      .set({ last_used_at: at, last_used_from: from })
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
    role: key.role,
    person_id: key.personID,
    made_by: key.madeBy,
    expires_at: key.expiresAt,
    last_used_from: key.lastUsedFrom,
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
    role: row.role,
    personID: row.person_id,
    madeBy: row.made_by,
    expiresAt: row.expires_at,
    lastUsedFrom: row.last_used_from,
  }
}

type KeyQuery = ReturnType<typeof selectKeys>

/** One statement: a request does it before anything else. */
const selectKeys = (db: Kysely<Tables>) =>
  db
    .selectFrom('api_keys')
    .innerJoin('teams', 'teams.id', 'api_keys.team_id')
    .leftJoin('people', 'people.id', 'api_keys.person_id')
    .leftJoin('team_members', (join) =>
      join
        .onRef('team_members.team_id', '=', 'api_keys.team_id')
        .onRef('team_members.person_id', '=', 'api_keys.person_id'),
    )
    .selectAll('teams')
    .select(['api_keys.hash', 'mask_prefix', 'mask_suffix', 'last_used_at', 'revoked_at'])
    .select(['api_keys.role', 'api_keys.person_id', 'made_by', 'expires_at', 'last_used_from'])
    .select(['api_keys.id as key_id', 'api_keys.name as key_name', 'api_keys.created_at as key_created_at'])
    .select(['team_members.role as member_role', 'issuer', 'subject', 'email', 'people.name as person_name'])
    .select(['is_operator', 'people.created_at as person_created_at', 'last_sign_in_at', 'removed_at'])
    .where('api_keys.revoked_at', 'is', null)

/** Finds a key that is not revoked, with its team and its person. */
export async function findKey(
  db: Kysely<Tables>,
  choose: (query: KeyQuery) => KeyQuery,
): Promise<FoundKey | undefined> {
  const row = await choose(selectKeys(db)).executeTakeFirst()
  if (!row) return undefined
  const ofKey = { id: row.key_id, team_id: row.id, name: row.key_name, created_at: row.key_created_at }
  const { person_id, person_name, person_created_at, is_operator } = row
  const isKnown = person_id !== null && person_name !== null && person_created_at !== null
  const ofPerson = isKnown && { id: person_id, name: person_name, created_at: person_created_at }
  return {
    key: keyOf({ ...row, ...ofKey }),
    hash: row.hash,
    team: teamOf(row),
    person: ofPerson ? personOf({ ...row, ...ofPerson, is_operator: is_operator === 1 ? 1 : 0 }) : null,
    memberRole: row.member_role,
  }
}
