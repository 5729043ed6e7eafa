import type { Kysely, Transaction } from 'kysely'
import type { Person, Role, TeamRole } from '../../core/person/person.ts'
import type { PersonStore, SignInClaims } from '../../core/person/person-store.ts'
import { AppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { PersonRow } from '../database/person-tables.ts'
import type { Tables } from '../database/tables.ts'
import { isPostgres } from '../database/together.ts'
import { revokeKeysOfPerson } from './person-keys.ts'

export class SqlPersonStore implements PersonStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async signIn(claims: SignInClaims, at: number): Promise<Person> {
    const begun = this.#db.transaction().setIsolationLevel('read committed')
    return await begun.execute(async (transaction) => {
      const row = await findOrMake(transaction, claims, at)
      if (row.removed_at !== null) {
        const message = 'This person was removed from this Warren; ask its operator to let them in again'
        throw new AppError('permission_denied', message)
      }
      const { email, name } = claims
      const changes = { email, name, is_operator: claims.isOperator ? 1 : 0, last_sign_in_at: at } as const
      await transaction.updateTable('people').set(changes).where('id', '=', row.id).execute()
      await replaceProviderMemberships(transaction, row.id, claims.memberships, at)
      return personOf({ ...row, ...changes })
    })
  }

  async find(personID: string): Promise<Person | undefined> {
    const query = this.#db.selectFrom('people').selectAll().where('id', '=', personID)
    const row = await query.executeTakeFirst()
    return row && personOf(row)
  }

  async rolesOf(personID: string): Promise<TeamRole[]> {
    const rows = await this.#db
      .selectFrom('team_members')
      .select(['team_id', 'role'])
      .where('person_id', '=', personID)
      .orderBy('added_at')
      .orderBy('team_id')
      .execute()
    return rows.map(({ team_id, role }) => ({ teamID: team_id, role }))
  }

  async roleIn(teamID: string, personID: string): Promise<Role | undefined> {
    const row = await this.#db
      .selectFrom('team_members')
      .select('role')
      .where('team_id', '=', teamID)
      .where('person_id', '=', personID)
      .executeTakeFirst()
    return row?.role
  }
}

/** Locks the person's row until the commit, so that two sign-ins of a person come one after the other. */
async function findOrMake(
  transaction: Transaction<Tables>,
  { issuer, subject, email, name }: SignInClaims,
  at: number,
): Promise<PersonRow> {
  const known = await lockBySubject(transaction, issuer, subject)
  if (known) return known
  const adopted = email === null ? undefined : await adoptInvited(transaction, { issuer, subject, email })
  if (adopted) return adopted
  await transaction
    .insertInto('people')
    .values({ ...newPersonRow({ email, name, at }), issuer, subject })
    .onConflict((conflict) => conflict.columns(['issuer', 'subject']).doNothing())
    .execute()
  return (await lockBySubject(transaction, issuer, subject))!
}

const lockBySubject = (
  transaction: Transaction<Tables>,
  issuer: string,
  subject: string,
): Promise<PersonRow | undefined> =>
  transaction
    .selectFrom('people')
    .selectAll()
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .$if(isPostgres(transaction), (query) => query.forUpdate())
    .executeTakeFirst()

/** The first invitation counts if there should be several; the others stay without effect. */
async function adoptInvited(
  transaction: Transaction<Tables>,
  { issuer, subject, email }: { issuer: string; subject: string; email: string },
): Promise<PersonRow | undefined> {
  const invited = await transaction
    .selectFrom('people')
    .select('id')
    .where('email', '=', email)
    .where('issuer', 'is', null)
    .where('removed_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .executeTakeFirst()
  if (!invited) return undefined
  return await transaction
    .updateTable('people')
    .set({ issuer, subject })
    .where('id', '=', invited.id)
    .where('issuer', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

async function replaceProviderMemberships(
  transaction: Transaction<Tables>,
  personID: string,
  memberships: readonly TeamRole[],
  at: number,
): Promise<void> {
  const current = await transaction
    .selectFrom('team_members')
    .select(['team_id', 'role', 'source'])
    .where('person_id', '=', personID)
    .execute()
  const wanted = new Map(memberships.map(({ teamID, role }) => [teamID, role]))
  const mine = transaction.updateTable('team_members').where('person_id', '=', personID)
  for (const { team_id, role, source } of current) {
    const given = wanted.get(team_id)
    wanted.delete(team_id)
    if (source === 'manual' || given === role) continue
    if (given !== undefined) {
      await mine.set({ role: given }).where('team_id', '=', team_id).execute()
      continue
    }
    await transaction
      .deleteFrom('team_members')
      .where('person_id', '=', personID)
      .where('team_id', '=', team_id)
      .execute()
    await revokeKeysOfPerson(transaction, { teamID: team_id, personID, at })
  }
  for (const [teamID, role] of wanted) {
    const row = { team_id: teamID, person_id: personID, role, source: 'provider', added_at: at } as const
    await transaction
      .insertInto('team_members')
      .values({ ...row, added_by: null })
      .onConflict((conflict) => conflict.columns(['team_id', 'person_id']).doNothing())
      .execute()
  }
}

type NamedPerson = { email: string | null; name: string; at: number; personID?: string }

export const newPersonRow = ({ email, name, at, personID = newUUID() }: NamedPerson): PersonRow => ({
  id: personID,
  issuer: null,
  subject: null,
  email,
  name,
  is_operator: 0,
  created_at: at,
  last_sign_in_at: null,
  removed_at: null,
})

export function personOf(row: PersonRow): Person {
  return {
    personID: row.id,
    issuer: row.issuer,
    subject: row.subject,
    email: row.email,
    name: row.name,
    isOperator: row.is_operator === 1,
    createdAt: row.created_at,
    lastSignInAt: row.last_sign_in_at,
    removedAt: row.removed_at,
  }
}
