/** Parts of statements about sandboxes, for use within other transactions. */
import { type Compilable, type ExpressionBuilder, sql, type Transaction } from 'kysely'
import type { Sandbox } from '../../core/sandbox/row/sandbox.ts'
import type { ExpiryKind, PausedFence, SandboxFilter } from '../../core/sandbox/row/sandbox-store.ts'
import { AppError } from '../../lib/app-error.ts'
import { type RemoteColumns, remoteColumnNames } from '../database/remote-columns.ts'
import type { SandboxRow, Tables } from '../database/tables.ts'
import type { LimitedSizes } from '../usage/limits.ts'
import { pairHashes } from './sandbox-row.ts'

/** Limits a statement to the number of values that an engine takes (32,766 for SQLite). */
const rowsPerInsert = 5000
/** Engines plan best with one term for each pair, but a statement takes only a limited number. */
const maxTerms = 10

/**
 * Locks the row until the commit by a write that changes nothing. Returns the resources that the sandbox
 * would need in addition: a frozen one already has its memory.
 */
export async function lockPaused(
  transaction: Transaction<Tables>,
  at: PausedFence & { nodeID: string },
): Promise<(LimitedSizes & { stored: Pick<SandboxRow, 'saved'> & RemoteColumns }) | undefined> {
  let query = transaction
    .updateTable('sandboxes')
    .set((set) => ({ state: set.ref('state') }))
    .where('id', '=', at.sandboxID)
    .where('run_id', '=', at.runID)
    .where('state', '=', 'paused')
    .where('node_id', '=', at.nodeID)
    .where('version', '=', at.version)
  if (at.markedUntil !== undefined) query = query.where('run_until', '=', at.markedUntil)
  const row = await query
    .returning(['team_id', 'cpu_count', 'memory_mb', 'gpu_count', 'is_frozen'])
    .returning(['saved', ...remoteColumnNames])
    .executeTakeFirst()
  if (!row) return undefined
  const { team_id, cpu_count, memory_mb, gpu_count, is_frozen, ...stored } = row
  return {
    teamID: team_id,
    cpuCount: cpu_count,
    memoryMB: is_frozen ? 0 : memory_mb,
    gpuCount: gpu_count,
    stored,
  }
}

export type ClaimKey = { team_id: string; key_hash: string }

/** With `attemptHash`, finds also a request without a sandbox if that attempt was given up. */
export function findingClaim(
  transaction: Transaction<Tables>,
  { team_id, key_hash }: ClaimKey,
  attemptHash?: string,
) {
  const claim = transaction
    .selectFrom('idempotency_claims')
    .select(['request_hash as requestHash', 'sandbox_id as sandboxID'])
    .where('team_id', '=', team_id)
    .where('key_hash', '=', key_hash)
  if (attemptHash === undefined) return claim
  return claim.unionAll(
    transaction
      .selectFrom('given_up_creates')
      .select([sql.lit('').as('requestHash'), sql.lit('').as('sandboxID')])
      .where('team_id', '=', team_id)
      .where('key_hash', '=', attemptHash),
  )
}

/** The statements that insert the row and its metadata. */
export function insertingSandbox(
  transaction: Transaction<Tables>,
  row: SandboxRow,
  metadata: Record<string, string>,
): Compilable[] {
  const rows = pairHashes(metadata).map((hash) => ({ sandbox_id: row.id, pair_hash: hash }))
  const statements: Compilable[] = [transaction.insertInto('sandboxes').values(row)]
  for (let start = 0; start < rows.length; start += rowsPerInsert) {
    const some = rows.slice(start, start + rowsPerInsert)
    statements.push(transaction.insertInto('sandbox_metadata').values(some))
  }
  return statements
}

/** Prevents the deletion of the volumes until the sandbox has ended. The sandbox's row must exist already. */
export async function useVolumes(
  transaction: Transaction<Tables>,
  { sandboxID, teamID, options }: Pick<Sandbox, 'sandboxID' | 'teamID' | 'options'>,
): Promise<void> {
  // In one order for all, so that two creates cannot wait for each other.
  const wanted = [...new Set(options.volumeMounts?.map(({ volumeID }) => volumeID))].sort()
  for (const volumeID of wanted) {
    const { numUpdatedRows } = await transaction
      .updateTable('volumes')
      .set((set) => ({ state: set.ref('state') }))
      .where('id', '=', volumeID)
      .where('team_id', '=', teamID)
      .where('state', '=', 'ready')
      .executeTakeFirstOrThrow()
    if (numUpdatedRows === 0n) {
      throw new AppError(
        'not_found',
        'A volume of the sandbox has been deleted. Create the sandbox without that volume.',
      )
    }
    const used = { sandbox_id: sandboxID, volume_id: volumeID }
    await transaction.insertInto('sandbox_volumes').values(used).execute()
  }
}

/** Written as a literal, so that the engine uses the index of ended rows. */
export const isEnded = (where: ExpressionBuilder<Tables, 'sandboxes'>) =>
  where('state', '=', sql.lit('ended'))

/** Written as a literal, so that the engine uses the index of running rows. */
export const isRunning = (where: ExpressionBuilder<Tables, 'sandboxes'>) =>
  where('state', '=', sql.lit('running'))

/** Selects sandboxes by whether the end of their timeout kills or pauses them. */
export const endsBy = (kind: ExpiryKind) => (where: ExpressionBuilder<Tables, 'sandboxes'>) =>
  where('auto_pause', '=', kind === 'pause' ? 1 : 0)

/**
 * True if any node may take the sandbox over: it is paused, all that a resume needs of it is stored (its snapshot and the layers of its
 * template), and it has no volume, whose disk would be on one machine only.
 */
export const isMovable = (where: ExpressionBuilder<Tables, 'sandboxes'>) =>
  where.and([
    where('state', '=', 'paused'),
    where('stored_at', 'is not', null),
    hasStoredBuild(where),
    hasNoVolume(where),
  ])

const hasStoredBuild = ({ exists, selectFrom }: ExpressionBuilder<Tables, 'sandboxes'>) =>
  exists(
    selectFrom('template_builds')
      .select('template_builds.id')
      .whereRef('template_builds.id', '=', 'sandboxes.build_id')
      .where('template_builds.stored_at', 'is not', null),
  )

/** True if no volume ties the sandbox to its machine. */
export const hasNoVolume = ({ not, exists, selectFrom }: ExpressionBuilder<Tables, 'sandboxes'>) =>
  not(
    exists(
      selectFrom('sandbox_volumes')
        .select('volume_id')
        .whereRef('sandbox_volumes.sandbox_id', '=', 'sandboxes.id'),
    ),
  )

export function matches(where: ExpressionBuilder<Tables, 'sandboxes'>, filter: SandboxFilter) {
  const conditions = [where('team_id', '=', filter.teamID), where('state', 'in', filter.states)]
  if (filter.templateID !== undefined) conditions.push(where('template_id', '=', filter.templateID))
  if (filter.startedAfter !== undefined) conditions.push(where('started_at', '>=', filter.startedAfter))
  const pairs = pairHashes(filter.metadata ?? {})
  const matching = where.selectFrom('sandbox_metadata').whereRef('sandbox_id', '=', 'sandboxes.id')
  if (pairs.length <= maxTerms) {
    for (const hash of pairs)
      conditions.push(where.exists(matching.select('sandbox_id').where('pair_hash', '=', hash)))
  } else {
    const found = matching
      .select(({ fn }) => fn.countAll<number>().as('found'))
      .where('pair_hash', 'in', pairs)
    conditions.push(where(found, '=', pairs.length))
  }
  return where.and(conditions)
}
