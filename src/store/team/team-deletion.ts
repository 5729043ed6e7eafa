import type { Kysely, Transaction } from 'kysely'
import { isAppError } from '../../lib/app-error.ts'
import type { Tables } from '../database/tables.ts'
import { lockTeam } from '../usage/limits.ts'
import { isUnended } from '../usage/sandbox-counts.ts'

type Deletion = { deleted: true } | { sandboxes: number; templates: number; volumes: number } | undefined

/** Implements `TeamStore.deleteUnused`. */
export async function deleteUnusedTeam(db: Kysely<Tables>, teamID: string): Promise<Deletion> {
  try {
    const begun = db.transaction().setIsolationLevel('read committed')
    return await begun.execute((transaction) => remove(transaction, teamID))
  } catch (error) {
    if (isAppError(error, 'not_found')) return undefined
    throw error
  }
}

async function remove(transaction: Transaction<Tables>, teamID: string): Promise<Deletion> {
  await lockTeam(transaction, teamID)
  const sandboxes = await transaction
    .selectFrom('sandboxes')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('team_id', '=', teamID)
    .where(isUnended)
    .executeTakeFirstOrThrow()
  const templates = await transaction
    .selectFrom('templates')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('team_id', '=', teamID)
    .executeTakeFirstOrThrow()
  const volumes = await transaction
    .selectFrom('volumes')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('team_id', '=', teamID)
    .executeTakeFirstOrThrow()
  const left = {
    sandboxes: Number(sandboxes.count),
    templates: Number(templates.count),
    volumes: Number(volumes.count),
  }
  if (left.sandboxes + left.templates + left.volumes > 0) return left
  const ended = transaction.selectFrom('sandboxes').select('id').where('team_id', '=', teamID)
  await transaction.deleteFrom('sandbox_metrics').where('sandbox_id', 'in', ended).execute()
  // Tokens before keys, which they reference; the rest in any order, the team last.
  const tables = [
    'access_tokens',
    'api_keys',
    'secrets',
    'lost_volumes',
    'build_cache',
    'idempotency_claims',
    'given_up_creates',
    'webhook_deliveries',
    'webhooks',
    'sandbox_events',
    'sandboxes',
  ] as const
  for (const table of tables) await transaction.deleteFrom(table).where('team_id', '=', teamID).execute()
  await transaction.deleteFrom('teams').where('id', '=', teamID).execute()
  return { deleted: true }
}
