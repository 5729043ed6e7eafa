import type { Kysely, Transaction } from 'kysely'
import { maxMembersPerTeam, type Role, type TeamMember } from '../../core/person/person.ts'
import type { MemberChange, MemberStore, NewMember } from '../../core/person/person-store.ts'
import { AppError } from '../../lib/app-error.ts'
import type { PersonRow, TeamMemberRow } from '../database/person-tables.ts'
import type { Tables } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'
import { newPersonRow, personOf } from './people.ts'
import { revokeKeysOfPerson } from './person-keys.ts'

export class SqlMemberStore implements MemberStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async list(teamID: string): Promise<TeamMember[]> {
    const rows = await this.#db
      .selectFrom('team_members')
      .innerJoin('people', 'people.id', 'team_members.person_id')
      .selectAll('people')
      .select(['team_id', 'person_id', 'role', 'source', 'added_at', 'added_by'])
      .where('team_id', '=', teamID)
      .orderBy('added_at')
      .orderBy('person_id')
      .execute()
    return rows.map((row) => memberOf(row, row))
  }

  async add(member: NewMember): Promise<TeamMember> {
    const { teamID, role, addedBy, at } = member
    return await this.#inTurn(teamID, async (transaction) => {
      const person = await findOrInvite(transaction, member)
      const current = await memberRow(transaction, teamID, person.id)
      if (current?.source === 'manual') {
        const message = `${member.email} is a member of the team already, as ${current.role}`
        throw new AppError('already_exists', `${message}; change the role instead`)
      }
      const { count } = await transaction
        .selectFrom('team_members')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('team_id', '=', teamID)
        .executeTakeFirstOrThrow()
      if (!current && Number(count) >= maxMembersPerTeam) {
        const message = `A team can have at most ${maxMembersPerTeam} members: remove some first`
        throw new AppError('limit_reached', message, { retry: { should: false } })
      }
      const given = { role, source: 'manual', added_at: at, added_by: addedBy } as const
      const row = { team_id: teamID, person_id: person.id, ...given }
      await transaction
        .insertInto('team_members')
        .values(row)
        .onConflict((conflict) => conflict.columns(['team_id', 'person_id']).doUpdateSet(given))
        .execute()
      return memberOf(row, person)
    })
  }

  setRole(teamID: string, personID: string, role: Role): Promise<MemberChange> {
    return this.#inTurn(teamID, async (transaction) => {
      const current = await memberRow(transaction, teamID, personID)
      if (!current) return 'absent'
      if (role !== 'owner' && (await isLastOwner(transaction, current))) return 'last owner'
      await transaction
        .updateTable('team_members')
        .set({ role, source: 'manual' })
        .where('team_id', '=', teamID)
        .where('person_id', '=', personID)
        .execute()
      return 'changed'
    })
  }

  remove(teamID: string, personID: string, at: number): Promise<MemberChange> {
    return this.#inTurn(teamID, async (transaction) => {
      const current = await memberRow(transaction, teamID, personID)
      if (!current) return 'absent'
      if (await isLastOwner(transaction, current)) return 'last owner'
      await transaction
        .deleteFrom('team_members')
        .where('team_id', '=', teamID)
        .where('person_id', '=', personID)
        .execute()
      await revokeKeysOfPerson(transaction, { teamID, personID, at })
      return 'changed'
    })
  }

  /** Changes of a team's members come one after another. */
  #inTurn<T>(teamID: string, work: (transaction: Transaction<Tables>) => Promise<T>): Promise<T> {
    const begun = this.#db.transaction().setIsolationLevel('read committed')
    return begun.execute(async (transaction) => {
      await lockTeam(transaction, teamID)
      return work(transaction)
    })
  }
}

async function findOrInvite(
  transaction: Transaction<Tables>,
  { email, at, personID }: NewMember,
): Promise<PersonRow> {
  const found = await transaction
    .selectFrom('people')
    .selectAll()
    .where('email', '=', email)
    .where('removed_at', 'is', null)
    .orderBy('created_at')
    .execute()
  const signedIn = found.filter(({ issuer }) => issuer !== null)
  if (signedIn.length > 1) {
    const message = `${signedIn.length} people have the address ${email}; have the provider give each their own`
    throw new AppError('conflict', message)
  }
  const known = signedIn[0] ?? found[0]
  if (known) return known
  const row = newPersonRow({ email, name: email, at, personID })
  await transaction.insertInto('people').values(row).execute()
  return row
}

const memberRow = (transaction: Transaction<Tables>, teamID: string, personID: string) =>
  transaction
    .selectFrom('team_members')
    .selectAll()
    .where('team_id', '=', teamID)
    .where('person_id', '=', personID)
    .executeTakeFirst()

async function isLastOwner(
  transaction: Transaction<Tables>,
  { team_id, person_id, role }: TeamMemberRow,
): Promise<boolean> {
  if (role !== 'owner') return false
  const other = await transaction
    .selectFrom('team_members')
    .select('person_id')
    .where('team_id', '=', team_id)
    .where('role', '=', 'owner')
    .where('person_id', '<>', person_id)
    .limit(1)
    .executeTakeFirst()
  return other === undefined
}

const memberOf = (row: TeamMemberRow, person: PersonRow): TeamMember => ({
  teamID: row.team_id,
  person: personOf(person),
  role: row.role,
  source: row.source,
  addedAt: row.added_at,
  addedBy: row.added_by,
})
