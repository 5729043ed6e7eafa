import type { ExpressionBuilder, Kysely, Transaction, Updateable } from 'kysely'
import type { DriverHandle } from '../core/driver.ts'
import {
  activeStates,
  type NewSandbox,
  type Sandbox,
  type SandboxOptions,
  type SandboxState,
  type SavedSandbox,
  statesBefore,
} from '../core/sandbox/sandbox.ts'
import type {
  IdempotencyClaim,
  SandboxChanges,
  SandboxFilter,
  SandboxPage,
  SandboxStore,
} from '../core/stores.ts'
import type { TeamLimits } from '../core/team/team.ts'
import { AppError } from '../lib/app-error.ts'
import { exceededLimit, lockTeam } from './limits.ts'
import { changedColumns, hashOf, newSandboxRow, pairHashes, sandboxOf } from './sandbox-row.ts'
import type { Tables } from './tables.ts'

/** Keeps a statement below the number of values that an engine takes at once (32,766 for SQLite). */
const rowsPerInsert = 5000

export class SqlSandboxStore implements SandboxStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  insertWithinLimits(
    sandbox: NewSandbox,
    limits: TeamLimits,
    claim?: IdempotencyClaim,
  ): ReturnType<SandboxStore['insertWithinLimits']> {
    // Each statement must see what others committed while this one waited for the team's row.
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      await lockTeam(locked, sandbox.teamID)
      const claimed = claim && { team_id: sandbox.teamID, key_hash: hashOf(claim.key) }
      if (claimed) {
        const earlier = await findClaim(locked, claimed)
        if (earlier) return { inserted: false, earlier }
      }
      const exceeded = await exceededLimit(locked, sandbox, limits)
      if (exceeded) return { inserted: false, exceeded }
      await insertSandbox(locked, sandbox)
      if (claimed) {
        const rest = {
          request_hash: claim.requestHash,
          sandbox_id: sandbox.sandboxID,
          created_at: sandbox.createdAt,
        }
        await locked
          .insertInto('idempotency_claims')
          .values({ ...claimed, ...rest })
          .execute()
      }
      return { inserted: true }
    })
  }

  async find(sandboxID: string): Promise<Sandbox | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('id', '=', sandboxID)
      .executeTakeFirst()
    return row && sandboxOf(row)
  }

  async list(filter: SandboxFilter, page: SandboxPage): Promise<Sandbox[]> {
    if (filter.states.length === 0) return []
    const ascending = page.order === 'asc'
    let query = this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where((where) => matches(where, filter))
      .orderBy('started_at', ascending ? 'asc' : 'desc')
      .orderBy('id', ascending ? 'desc' : 'asc')
      .limit(page.limit)
    const { after } = page
    if (after) {
      const [beyond, further] = ascending ? (['>', '<'] as const) : (['<', '>'] as const)
      query = query.where((where) =>
        where.or([
          where('started_at', beyond, after.startedAt),
          where.and([where('started_at', '=', after.startedAt), where('id', further, after.sandboxID)]),
        ]),
      )
    }
    return (await query.execute()).map(sandboxOf)
  }

  async count(filter: SandboxFilter): Promise<number> {
    if (filter.states.length === 0) return 0
    const { total } = await this.#db
      .selectFrom('sandboxes')
      .select((select) => select.fn.countAll<number>().as('total'))
      .where((where) => matches(where, filter))
      .executeTakeFirstOrThrow()
    return total
  }

  async listUnended(states: readonly SandboxState[] = [...activeStates, 'paused']): Promise<Sandbox[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('state', 'in', states)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
    return rows.map(sandboxOf)
  }

  async move(
    at: { sandboxID: string; runID: string; from: readonly SandboxState[] },
    to: SandboxState,
    changes: SandboxChanges = {},
  ): Promise<Sandbox | undefined> {
    const illegal = at.from.filter((state) => !statesBefore(to).includes(state))
    if (illegal.length > 0 || at.from.length === 0) {
      throw new AppError(
        'internal',
        `A sandbox cannot move from ${illegal.join(', ') || 'no state'} to ${to}`,
      )
    }
    if (to === 'ended' && (changes.endReason == null || changes.endedAt == null)) {
      throw new AppError('internal', 'A sandbox ends only with a reason and a time')
    }
    const row = await this.#db
      .updateTable('sandboxes')
      .set({ ...changedColumns(changes), state: to })
      .where('id', '=', at.sandboxID)
      .where('run_id', '=', at.runID)
      .where('state', 'in', at.from)
      .returningAll()
      .executeTakeFirst()
    return row && sandboxOf(row)
  }

  resumeWithinLimits(
    at: { sandboxID: string; runID: string },
    limits: TeamLimits,
    changes: SandboxChanges,
  ): ReturnType<SandboxStore['resumeWithinLimits']> {
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      const known = await locked
        .selectFrom('sandboxes')
        .select('team_id')
        .where('id', '=', at.sandboxID)
        .executeTakeFirst()
      if (!known) return { moved: undefined }
      await lockTeam(locked, known.team_id)
      const paused = await holdPaused(locked, at)
      if (!paused) return { moved: undefined }
      const exceeded = await exceededLimit(locked, paused, limits)
      if (exceeded) return { exceeded }
      const row = await locked
        .updateTable('sandboxes')
        .set({ ...changedColumns(changes), state: 'resuming' })
        .where('id', '=', at.sandboxID)
        .returningAll()
        .executeTakeFirstOrThrow()
      return { moved: sandboxOf(row) }
    })
  }

  setOptions(sandboxID: string, runID: string, options: SandboxOptions): Promise<Sandbox | undefined> {
    return this.#change({ sandboxID, runID, state: 'running' }, { options: JSON.stringify(options) })
  }

  setSaved(sandboxID: string, runID: string, saved: SavedSandbox): Promise<Sandbox | undefined> {
    return this.#change({ sandboxID, runID, state: 'paused' }, changedColumns({ saved }))
  }

  async saveHandle(sandboxID: string, runID: string, handle: DriverHandle): Promise<boolean> {
    const updated = await this.#db
      .updateTable('sandboxes')
      .set({ handle: JSON.stringify(handle) })
      .where('id', '=', sandboxID)
      .where('run_id', '=', runID)
      .where('state', '<>', 'ended')
      .executeTakeFirstOrThrow()
    return updated.numUpdatedRows > 0n
  }

  async setEnd(
    sandboxID: string,
    runID: string,
    endAt: number,
    onlyExtend: boolean,
  ): Promise<Sandbox | undefined> {
    const row = await this.#db
      .updateTable('sandboxes')
      .set((set) => ({
        end_at: onlyExtend
          ? set.case().when('end_at', '>', endAt).then(set.ref('end_at')).else(endAt).end()
          : endAt,
      }))
      .where('id', '=', sandboxID)
      .where('run_id', '=', runID)
      .where('state', '=', 'running')
      .returningAll()
      .executeTakeFirst()
    return row && sandboxOf(row)
  }

  /** Undefined: the sandbox is in another life or state by now. */
  async #change(
    { sandboxID, runID, state }: { sandboxID: string; runID: string; state: SandboxState },
    columns: Updateable<Tables['sandboxes']>,
  ): Promise<Sandbox | undefined> {
    const row = await this.#db
      .updateTable('sandboxes')
      .set(columns)
      .where('id', '=', sandboxID)
      .where('run_id', '=', runID)
      .where('state', '=', state)
      .returningAll()
      .executeTakeFirst()
    return row && sandboxOf(row)
  }

  async listExpired(now: number, limit: number): Promise<Sandbox[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('state', '=', 'running')
      .where('end_at', '<=', now)
      .orderBy('end_at')
      .orderBy('id')
      .limit(limit)
      .execute()
    return rows.map(sandboxOf)
  }

  async nextEnd(): Promise<number | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .select('end_at')
      .where('state', '=', 'running')
      .orderBy('end_at')
      .limit(1)
      .executeTakeFirst()
    return row?.end_at
  }

  async releaseClaim(teamID: string, sandboxID: string): Promise<void> {
    await this.#db
      .deleteFrom('idempotency_claims')
      .where('team_id', '=', teamID)
      .where('sandbox_id', '=', sandboxID)
      .execute()
  }

  /** Counts the rows of sandboxes only. */
  prune(before: number): Promise<number> {
    return this.#db.transaction().execute(async (transaction) => {
      await transaction.deleteFrom('idempotency_claims').where('created_at', '<', before).execute()
      const { numDeletedRows } = await transaction
        .deleteFrom('sandboxes')
        .where('state', '=', 'ended')
        .where('ended_at', '<', before)
        .executeTakeFirstOrThrow()
      return Number(numDeletedRows)
    })
  }
}

/** A write that changes nothing: the row cannot move until the commit. */
async function holdPaused(
  transaction: Transaction<Tables>,
  at: { sandboxID: string; runID: string },
): Promise<Sandbox | undefined> {
  const row = await transaction
    .updateTable('sandboxes')
    .set((set) => ({ state: set.ref('state') }))
    .where('id', '=', at.sandboxID)
    .where('run_id', '=', at.runID)
    .where('state', '=', 'paused')
    .returningAll()
    .executeTakeFirst()
  return row && sandboxOf(row)
}

async function findClaim(
  transaction: Transaction<Tables>,
  claimed: { team_id: string; key_hash: string },
): Promise<{ requestHash: string; sandboxID: string } | undefined> {
  const row = await transaction
    .selectFrom('idempotency_claims')
    .select(['request_hash', 'sandbox_id'])
    .where('team_id', '=', claimed.team_id)
    .where('key_hash', '=', claimed.key_hash)
    .executeTakeFirst()
  return row && { requestHash: row.request_hash, sandboxID: row.sandbox_id }
}

async function insertSandbox(transaction: Transaction<Tables>, sandbox: NewSandbox): Promise<void> {
  const { sandboxID } = sandbox
  await transaction.insertInto('sandboxes').values(newSandboxRow(sandbox)).execute()
  const rows = pairHashes(sandbox.metadata).map((hash) => ({ sandbox_id: sandboxID, pair_hash: hash }))
  for (let start = 0; start < rows.length; start += rowsPerInsert) {
    const some = rows.slice(start, start + rowsPerInsert)
    await transaction.insertInto('sandbox_metadata').values(some).execute()
  }
}

function matches(where: ExpressionBuilder<Tables, 'sandboxes'>, filter: SandboxFilter) {
  const conditions = [where('team_id', '=', filter.teamID), where('state', 'in', filter.states)]
  if (filter.templateID !== undefined) conditions.push(where('template_id', '=', filter.templateID))
  if (filter.startedAfter !== undefined) conditions.push(where('started_at', '>=', filter.startedAfter))
  const pairs = pairHashes(filter.metadata ?? {})
  if (pairs.length > 0) {
    const found = where
      .selectFrom('sandbox_metadata')
      .select(({ fn }) => fn.countAll<number>().as('found'))
      .whereRef('sandbox_id', '=', 'sandboxes.id')
      .where('pair_hash', 'in', pairs)
    conditions.push(where(found, '=', pairs.length))
  }
  return where.and(conditions)
}
