/** Gives up a create that another node was asked for and whose answer was lost, in turn with the insert of that node. */
import type { Kysely } from 'kysely'
import type { EarlierRequest, LostCreate } from '../../core/sandbox/row/sandbox-store.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Tables } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'
import { findingClaim } from './sandbox-queries.ts'
import { hashOf, sandboxOf } from './sandbox-row.ts'
import { updateWithEvents } from './sandbox-update.ts'

export function giveUpCreate(
  db: Kysely<Tables>,
  vault: SecretVault,
  { teamID, key, attemptKey, nodeID, at }: LostCreate,
): Promise<EarlierRequest | undefined> {
  // Each statement must see what the node has committed while this one waited for the team's row.
  const transaction = db.transaction().setIsolationLevel('read committed')
  return transaction.execute(async (locked) => {
    await lockTeam(locked, teamID)
    const made = await findingClaim(locked, { team_id: teamID, key_hash: hashOf(key) }).executeTakeFirst()
    if (made) {
      const { sandboxID } = made
      const update = {
        fence: { sandboxID, nodeID, from: ['creating'] } as const,
        columns: { state: 'ended', ended_at: at, end_reason: 'create_failed' } as const,
        named: { transitionID: newUUID(), at },
        // Its team never saw it.
        news: undefined,
      }
      const ended = await updateWithEvents(locked, update, (row) => sandboxOf(row, vault))
      if (!ended && !(await isFailing(locked, sandboxID))) return { ...made }
      await locked.deleteFrom('idempotency_claims').where('sandbox_id', '=', sandboxID).execute()
    }
    await locked
      .insertInto('given_up_creates')
      .values({ team_id: teamID, key_hash: hashOf(attemptKey), created_at: at })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    return undefined
  })
}

/** The node itself found that it cannot create the sandbox, and leaves nothing behind. */
async function isFailing(db: Kysely<Tables>, sandboxID: string): Promise<boolean> {
  const row = await db
    .selectFrom('sandboxes')
    .select('end_reason')
    .where('id', '=', sandboxID)
    .executeTakeFirst()
  return row?.end_reason === 'create_failed'
}
