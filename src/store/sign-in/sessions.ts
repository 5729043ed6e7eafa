import type { Kysely } from 'kysely'
import type { Person } from '../../core/person/person.ts'
import type { PersonSession } from '../../core/sign-in/person-session.ts'
import type { NewSession, SessionStore } from '../../core/sign-in/session-store.ts'
import type { SessionRow } from '../database/person-tables.ts'
import type { Tables } from '../database/tables.ts'
import { personOf } from '../person/people.ts'

export class SqlSessionStore implements SessionStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insert(session: NewSession): Promise<boolean> {
    const inserted = await this.#db
      .insertInto('sessions')
      .values(rowOf(session))
      .onConflict((conflict) => conflict.column('attempt_hash').doNothing())
      .executeTakeFirst()
    return (inserted.numInsertedOrUpdatedRows ?? 0n) > 0n
  }

  async findByHash(
    hash: string,
  ): Promise<{ session: PersonSession; hash: string; person: Person } | undefined> {
    const row = await this.#db
      .selectFrom('sessions')
      .innerJoin('people', 'people.id', 'sessions.person_id')
      .selectAll('people')
      .select(['sessions.id as session_id', 'person_id', 'hash', 'user_agent', 'address', 'last_used_at'])
      .select(['sessions.created_at as session_created_at', 'expires_at'])
      .where('hash', '=', hash)
      .where('ended_at', 'is', null)
      .where('people.removed_at', 'is', null)
      .executeTakeFirst()
    if (!row) return undefined
    const session = sessionOf({ ...row, id: row.session_id, created_at: row.session_created_at })
    return { session, hash: row.hash, person: personOf(row) }
  }

  async touch(sessionID: string, at: number): Promise<void> {
    await this.#db
      .updateTable('sessions')
      .set({ last_used_at: at })
      .where('id', '=', sessionID)
      .where('last_used_at', '<', at)
      .execute()
  }

  async list(personID: string): Promise<PersonSession[]> {
    const rows = await this.#db
      .selectFrom('sessions')
      .selectAll()
      .where('person_id', '=', personID)
      .where('ended_at', 'is', null)
      .orderBy('last_used_at', 'desc')
      .orderBy('id')
      .execute()
    return rows.map(sessionOf)
  }

  async end(personID: string, sessionID: string, at: number): ReturnType<SessionStore['end']> {
    const ended = await this.#db
      .updateTable('sessions')
      .set({ ended_at: at })
      .where('id', '=', sessionID)
      .where('person_id', '=', personID)
      .where('ended_at', 'is', null)
      .returning(['id_token_key', 'id_token'])
      .executeTakeFirst()
    if (!ended) return undefined
    const { id_token_key: keyID, id_token: sealed } = ended
    return { idToken: keyID === null || sealed === null ? null : { keyID, sealed } }
  }

  async prune({ expiresAt, usedAt, endedAt }: Parameters<SessionStore['prune']>[0]): Promise<void> {
    await this.#db
      .deleteFrom('sessions')
      .where((where) =>
        where.or([
          where('expires_at', '<', expiresAt),
          where('last_used_at', '<', usedAt),
          where('ended_at', '<', endedAt),
        ]),
      )
      .execute()
  }
}

function rowOf(session: NewSession): SessionRow {
  return {
    id: session.sessionID,
    person_id: session.personID,
    hash: session.hash,
    attempt_hash: session.attemptHash,
    id_token_key: session.idToken?.keyID ?? null,
    id_token: session.idToken?.sealed ?? null,
    user_agent: session.userAgent,
    address: session.address,
    created_at: session.createdAt,
    last_used_at: session.lastUsedAt,
    expires_at: session.expiresAt,
    ended_at: null,
  }
}

type ShownColumns =
  | 'id'
  | 'person_id'
  | 'created_at'
  | 'last_used_at'
  | 'expires_at'
  | 'user_agent'
  | 'address'

const sessionOf = (row: Pick<SessionRow, ShownColumns>): PersonSession => ({
  sessionID: row.id,
  personID: row.person_id,
  createdAt: row.created_at,
  lastUsedAt: row.last_used_at,
  expiresAt: row.expires_at,
  userAgent: row.user_agent,
  address: row.address,
})
