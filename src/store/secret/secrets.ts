import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import type { Secret, SecretReference } from '../../core/secret/secret.ts'
import type { SecretChange, SecretPage, SecretStore } from '../../core/secret/secret-store.ts'
import type { SealedValue } from '../../core/secret/vault.ts'
import type { SecretRow, SecretVersionRow, Tables } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'

export class SqlSecretStore implements SecretStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  insert(secret: Secret, value: SealedValue, max: number): Promise<boolean> {
    const begun = this.#db.transaction().setIsolationLevel('read committed')
    return begun.execute(async (transaction) => {
      await lockTeam(transaction, secret.teamID)
      const { count } = await transaction
        .selectFrom('secrets')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('team_id', '=', secret.teamID)
        .executeTakeFirstOrThrow()
      if (count >= max) return false
      await transaction.insertInto('secrets').values(rowOf(secret)).execute()
      await transaction.insertInto('secret_versions').values(versionOf(secret, value)).execute()
      return true
    })
  }

  async find(teamID: string, reference: SecretReference): Promise<Secret | undefined> {
    const query = this.#db.selectFrom('secrets').selectAll().where(isMeant(teamID, reference))
    const row = await query.executeTakeFirst()
    return row && secretOf(row)
  }

  async list(teamID: string, { limit, after }: SecretPage): Promise<Secret[]> {
    let query = this.#db.selectFrom('secrets').selectAll().where('team_id', '=', teamID)
    if (after) {
      query = query.where((where) =>
        where.or([
          where('created_at', '<', after.createdAt),
          where.and([where('created_at', '=', after.createdAt), where('id', '>', after.secretID)]),
        ]),
      )
    }
    const rows = await query.orderBy('created_at', 'desc').orderBy('id').limit(limit).execute()
    return rows.map(secretOf)
  }

  append(teamID: string, reference: SecretReference, change: SecretChange): Promise<Secret | undefined> {
    const { metadata, at, maxVersions, seal } = change
    return this.#db.transaction().execute(async (transaction) => {
      // Locks the row until the commit, so that every append gets its own number.
      const row = await transaction
        .updateTable('secrets')
        .set({ current_version: sql`current_version + 1`, updated_at: at })
        .$if(metadata !== undefined, (some) => some.set({ metadata: JSON.stringify(metadata) }))
        .where(isMeant(teamID, reference))
        .returningAll()
        .executeTakeFirst()
      if (!row) return undefined
      const secret = secretOf(row)
      await transaction
        .insertInto('secret_versions')
        .values(versionOf(secret, seal(secret)))
        .execute()
      await transaction
        .deleteFrom('secret_versions')
        .where('secret_id', '=', secret.secretID)
        .where('version', '<=', secret.currentVersion - maxVersions)
        .execute()
      return secret
    })
  }

  async delete(teamID: string, reference: SecretReference): Promise<boolean> {
    const query = this.#db.deleteFrom('secrets').where(isMeant(teamID, reference))
    return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
  }

  async readCurrent(
    teamID: string,
    name: string,
  ): Promise<{ secret: Secret; value: SealedValue } | undefined> {
    const row = await this.#currentVersions()
      .selectAll('secrets')
      .select(['secret_versions.key_id', 'secret_versions.sealed'])
      .where('team_id', '=', teamID)
      .where('name', '=', name)
      .executeTakeFirst()
    return row && { secret: secretOf(row), value: { keyID: row.key_id, sealed: row.sealed } }
  }

  async countSealedByOthers(keyID: string): Promise<number> {
    const { count } = await this.#currentVersions()
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('secret_versions.key_id', '<>', keyID)
      .executeTakeFirstOrThrow()
    return count
  }

  #currentVersions() {
    return this.#db
      .selectFrom('secrets')
      .innerJoin('secret_versions', (join) =>
        join
          .onRef('secret_versions.secret_id', '=', 'secrets.id')
          .onRef('secret_versions.version', '=', 'secrets.current_version'),
      )
  }
}

function isMeant(teamID: string, reference: SecretReference) {
  return (where: ExpressionBuilder<Tables, 'secrets'>) =>
    where.and([
      where('team_id', '=', teamID),
      'name' in reference ? where('name', '=', reference.name) : where('id', '=', reference.secretID),
    ])
}

function rowOf(secret: Secret): SecretRow {
  return {
    id: secret.secretID,
    team_id: secret.teamID,
    name: secret.name,
    current_version: secret.currentVersion,
    metadata: JSON.stringify(secret.metadata),
    created_at: secret.createdAt,
    updated_at: secret.updatedAt,
  }
}

function versionOf(secret: Secret, { keyID, sealed }: SealedValue): SecretVersionRow {
  const { secretID, currentVersion, updatedAt } = secret
  return { secret_id: secretID, version: currentVersion, key_id: keyID, sealed, created_at: updatedAt }
}

function secretOf(row: SecretRow): Secret {
  return {
    secretID: row.id,
    teamID: row.team_id,
    name: row.name,
    currentVersion: row.current_version,
    metadata: JSON.parse(row.metadata),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}
