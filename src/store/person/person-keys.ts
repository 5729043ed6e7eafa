import type { Transaction } from 'kysely'
import type { Tables } from '../database/tables.ts'

type KeysOfPerson = { teamID: string; personID: string; at: number }

/** Revokes the live keys and access tokens that a person has in a team. */
export async function revokeKeysOfPerson(
  transaction: Transaction<Tables>,
  { teamID, personID, at }: KeysOfPerson,
): Promise<void> {
  const revoked = await transaction
    .updateTable('api_keys')
    .set({ revoked_at: at })
    .where('person_id', '=', personID)
    .where('team_id', '=', teamID)
    .where('revoked_at', 'is', null)
    .returning('id')
    .execute()
  if (revoked.length === 0) return
  await transaction
    .updateTable('access_tokens')
    .set({ revoked_at: at })
    .where('team_id', '=', teamID)
    .where(
      'key_id',
      'in',
      revoked.map(({ id }) => id),
    )
    .where('revoked_at', 'is', null)
    .execute()
}
