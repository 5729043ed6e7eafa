/** Lists of sandboxes, page by page. Each takes as long with ten thousand rows as with a hundred. */

import type { Kysely } from 'kysely'
import type { SandboxFilter, SandboxPage } from '../../core/sandbox/row/sandbox-store.ts'
import { letOthersRun } from '../../lib/let-others-run.ts'
import type { SandboxRow, Tables } from '../database/tables.ts'
import { isUnended } from '../usage/sandbox-counts.ts'
import { matches } from './sandbox-queries.ts'
import { pairHashes } from './sandbox-row.ts'

/** Up to this number, sorting is faster than finding a page in order. */
const fewSandboxes = 200
const rowsPerPart = 250

export async function listPage(
  db: Kysely<Tables>,
  filter: SandboxFilter,
  page: SandboxPage,
): Promise<SandboxRow[]> {
  if (filter.states.length === 0) return []
  const few = await findByRarePair(db, filter.metadata ?? {})
  if (few?.length === 0) return []
  const ascending = page.order === 'asc'
  let query = db
    .selectFrom('sandboxes')
    .selectAll()
    .where((where) => matches(where, filter))
    .orderBy('started_at', ascending ? 'asc' : 'desc')
    .orderBy('id', ascending ? 'desc' : 'asc')
    .limit(page.limit)
  if (few) query = query.where('id', 'in', few)
  else if (!filter.states.includes('ended')) query = query.where(isUnended)
  const { after } = page
  if (after) {
    const [beyond, further] = ascending ? (['>', '<'] as const) : (['<', '>'] as const)
    query = query
      // A separate condition, so that the engine finds the position in the index.
      .where('started_at', `${beyond}=`, after.startedAt)
      .where((where) =>
        where.or([where('started_at', beyond, after.startedAt), where('id', further, after.sandboxID)]),
      )
  }
  return query.execute()
}

/**
 * Finds the sandboxes with the rarest of the pairs; undefined if all pairs are common. A few sandboxes are
 * found by their pair and sorted; if many have a pair, a page fills up soon after its first row.
 */
async function findByRarePair(
  db: Kysely<Tables>,
  metadata: Record<string, string>,
): Promise<string[] | undefined> {
  for (const hash of pairHashes(metadata)) {
    const found = await db
      .selectFrom('sandbox_metadata')
      .select('sandbox_id')
      .where('pair_hash', '=', hash)
      .limit(fewSandboxes + 1)
      .execute()
    if (found.length <= fewSandboxes) return found.map(({ sandbox_id }) => sandbox_id)
  }
  return undefined
}

/** Reads in parts, ordered by ID, with a break in between, so that nobody waits until all rows are read. */
export async function* unendedInParts<Row extends { id: string }>(
  db: Kysely<Tables>,
  read: (part: ReturnType<typeof unendedAfter>) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  for (let last = ''; ; ) {
    const rows = await read(unendedAfter(db, last))
    yield rows
    if (rows.length < rowsPerPart) return
    last = rows.at(-1)!.id
    await letOthersRun()
  }
}

const unendedAfter = (db: Kysely<Tables>, id: string) =>
  db.selectFrom('sandboxes').where('id', '>', id).where(isUnended).orderBy('id').limit(rowsPerPart)

const idsPerQuery = 500

/** Teams of those sandboxes that have a row, of any node and in any state. */
export async function teamsOfSandboxes(
  db: Kysely<Tables>,
  sandboxIDs: readonly string[],
): Promise<Map<string, string>> {
  const teams = new Map<string, string>()
  for (let start = 0; start < sandboxIDs.length; start += idsPerQuery) {
    const rows = await db
      .selectFrom('sandboxes')
      .select(['id', 'team_id'])
      .where('id', 'in', sandboxIDs.slice(start, start + idsPerQuery))
      .execute()
    for (const { id, team_id } of rows) teams.set(id, team_id)
  }
  return teams
}
