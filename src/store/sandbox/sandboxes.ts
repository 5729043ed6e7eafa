import type { Kysely } from 'kysely'
import type { DriverHandle } from '../../core/ports/driver.ts'
import {
  activeStates,
  type NewSandbox,
  type Sandbox,
  type SandboxOptions,
  type SandboxSnapshot,
  type SandboxState,
  statesBefore,
} from '../../core/sandbox/row/sandbox.ts'
import type {
  EndFence,
  ExpiryKind,
  IdempotencyClaim,
  NamedChange,
  PausedFence,
  RowInTurn,
  SandboxChanges,
  SandboxFence,
  SandboxFilter,
  SandboxPage,
  SandboxStore,
} from '../../core/sandbox/row/sandbox-store.ts'
import { pauseSnapshotName } from '../../core/sandbox/snapshots/snapshot-names.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import type { TeamLimits } from '../../core/team/team.ts'
import { AppError } from '../../lib/app-error.ts'
import { nothingStored } from '../database/remote-columns.ts'
import type { SandboxRow, Tables } from '../database/tables.ts'
import { lockQuarantined } from '../snapshot/quarantine.ts'
import { exceededLimit, lockTeam } from '../usage/limits.ts'
import {
  countByState,
  countInStates,
  isUnended,
  sumOfTeam,
  type Usage,
  usageIn,
  usageOfNode,
  usageOfTeams,
} from '../usage/sandbox-counts.ts'
import { insertWithinLimits } from './sandbox-insert.ts'
import { listPage, teamsOfSandboxes, unendedInParts } from './sandbox-list.ts'
import { optionColumns, whyLocked } from './sandbox-options.ts'
import { endsBy, isEnded, isRunning, lockPaused, matches } from './sandbox-queries.ts'
import { changedColumns, newSandboxRow, sandboxOf, withRemoteRun } from './sandbox-row.ts'
import {
  newsOfTransition,
  nextVersion,
  type RowUpdate,
  updateSandbox,
  updateWithEvents,
} from './sandbox-update.ts'

const byAge = (a: Sandbox, b: Sandbox) => a.createdAt - b.createdAt || (a.sandboxID < b.sandboxID ? -1 : 1)

/** A move to one of these states ends a departure: it clears `runUntil`. */
const forgetsDeparture: readonly SandboxState[] = ['running', 'killing', 'ended']

export class SqlSandboxStore implements SandboxStore {
  readonly #db: Kysely<Tables>
  readonly #vault: SecretVault
  readonly #nodeID: string

  /** Changes only the sandboxes of this node, and sees others only in the lists of a team. */
  constructor(db: Kysely<Tables>, vault: SecretVault, nodeID: string) {
    this.#db = db
    this.#vault = vault
    this.#nodeID = nodeID
  }

  #read = (row: SandboxRow): Sandbox => sandboxOf(row, this.#vault)

  insertWithinLimits(
    sandbox: NewSandbox,
    limits: TeamLimits,
    claim?: IdempotencyClaim,
  ): ReturnType<SandboxStore['insertWithinLimits']> {
    return insertWithinLimits(this.#db, {
      sandbox,
      row: newSandboxRow(sandbox, this.#nodeID, this.#vault),
      limits,
      claim,
    })
  }

  async find(sandboxID: string): Promise<Sandbox | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('id', '=', sandboxID)
      .where('node_id', '=', this.#nodeID)
      .executeTakeFirst()
    return row && this.#read(row)
  }

  async list(filter: SandboxFilter, page: SandboxPage): Promise<Sandbox[]> {
    return (await listPage(this.#db, filter, page)).map(this.#read)
  }

  async count(filter: SandboxFilter): Promise<number> {
    const { teamID, states, ...rest } = filter
    if (states.length === 0) return 0
    const isPlain = !states.includes('ended') && Object.keys(rest).length === 0
    if (isPlain) return countInStates(this.#db, { teamID, states })
    const { total } = await this.#db
      .selectFrom('sandboxes')
      .select((select) => select.fn.countAll<number>().as('total'))
      .where((where) => matches(where, filter))
      .$if(!states.includes('ended'), (query) => query.where(isUnended))
      .executeTakeFirstOrThrow()
    return total
  }

  sumActive(): Promise<Usage> {
    return usageOfNode(this.#db, this.#nodeID)
  }

  sumActiveByTeam(): Promise<(Usage & { teamID: string })[]> {
    return usageOfTeams(this.#db, this.#nodeID)
  }

  teamsOf(sandboxIDs: readonly string[]): Promise<Map<string, string>> {
    return teamsOfSandboxes(this.#db, sandboxIDs)
  }

  countByState(): Promise<{ state: SandboxState; count: number }[]> {
    return countByState(this.#db, this.#nodeID)
  }

  async listUnended(states: readonly SandboxState[] = [...activeStates, 'paused']): Promise<Sandbox[]> {
    const found: Sandbox[] = []
    const parts = unendedInParts(this.#db, (part) =>
      part.selectAll().where('node_id', '=', this.#nodeID).where('state', 'in', states).execute(),
    )
    for await (const rows of parts) found.push(...rows.map(this.#read))
    return found.sort(byAge)
  }

  async transition(
    at: SandboxFence,
    to: SandboxState,
    changes: SandboxChanges = {},
    named?: NamedChange,
  ): Promise<Sandbox | undefined> {
    const legal = statesBefore(to, { returns: changes.stored !== undefined })
    const illegal = at.from.filter((state) => !legal.includes(state))
    if (illegal.length > 0 || at.from.length === 0) {
      throw new AppError(
        'internal',
        `A sandbox cannot move from ${illegal.join(', ') || 'no state'} to ${to}`,
      )
    }
    if (to === 'ended' && (changes.endReason == null || changes.endedAt == null)) {
      throw new AppError('internal', 'A sandbox ends only with a reason and a time')
    }
    const columns = {
      ...changedColumns(changes),
      ...(forgetsDeparture.includes(to) && { run_until: null }),
      state: to,
    }
    const news = named && newsOfTransition(at.from, to, changes)
    return this.#update({ fence: { ...at, nodeID: this.#nodeID }, columns, named, news })
  }

  resumeWithinLimits(
    at: PausedFence,
    limits: TeamLimits,
    changes: SandboxChanges,
  ): ReturnType<SandboxStore['resumeWithinLimits']> {
    const transaction = this.#db.transaction().setIsolationLevel('read committed')
    return transaction.execute(async (locked) => {
      const known = await locked
        .selectFrom('sandboxes')
        .select('team_id')
        .where('id', '=', at.sandboxID)
        .where('node_id', '=', this.#nodeID)
        .executeTakeFirst()
      if (!known) return { resumed: undefined }
      await lockTeam(locked, known.team_id)
      const paused = await lockPaused(locked, { ...at, nodeID: this.#nodeID })
      if (!paused) return { resumed: undefined }
      const used = usageIn(await sumOfTeam(locked, known.team_id).executeTakeFirst())
      const exceeded = await exceededLimit(locked, paused, limits, used)
      if (exceeded) return { exceeded }
      const row = await locked
        .updateTable('sandboxes')
        // The stored snapshot is from before this run.
        .set({ ...withRemoteRun(at.runID, paused.stored), ...changedColumns(changes), state: 'resuming' })
        .set(nextVersion)
        .where('id', '=', at.sandboxID)
        .returningAll()
        .executeTakeFirstOrThrow()
      return { resumed: this.#read(row) }
    })
  }

  setOptions(
    { sandboxID, teamID, runID, version }: RowInTurn & Pick<Sandbox, 'teamID'>,
    options: SandboxOptions,
    named?: NamedChange,
  ): Promise<Sandbox | undefined> {
    return this.#update({
      fence: { sandboxID, runID, version, from: ['running'], nodeID: this.#nodeID },
      columns: optionColumns({ sandboxID, teamID }, options, this.#vault),
      named,
      news: { type: 'updated', changed: 'network' },
    })
  }

  setSnapshot(
    { sandboxID, runID, version }: RowInTurn,
    snapshot: SandboxSnapshot,
  ): Promise<Sandbox | undefined> {
    return this.#update({
      fence: { sandboxID, runID, version, from: ['paused'], nodeID: this.#nodeID },
      columns: changedColumns({ snapshot }),
      named: undefined,
      news: undefined,
    })
  }

  forgetArrival({ sandboxID, runID, version }: RowInTurn): Promise<Sandbox | undefined> {
    return this.#update({
      fence: { sandboxID, runID, version, from: ['running'], nodeID: this.#nodeID },
      columns: changedColumns({ snapshot: null }),
      named: undefined,
      news: undefined,
    })
  }

  stayPaused(
    { sandboxID, runID, version }: RowInTurn,
    snapshot: SandboxSnapshot,
  ): Promise<Sandbox | undefined> {
    return this.#update({
      fence: { sandboxID, runID, version, from: ['paused'], nodeID: this.#nodeID, isToRun: true },
      columns: changedColumns({ snapshot, runUntil: null }),
      named: undefined,
      news: undefined,
    })
  }

  #update(update: RowUpdate): Promise<Sandbox | undefined> {
    return updateSandbox(this.#db, update, this.#read)
  }

  async saveHandle(sandboxID: string, runID: string, handle: DriverHandle): Promise<boolean> {
    const updated = await this.#db
      .updateTable('sandboxes')
      .set({ handle: JSON.stringify(handle) })
      .where('id', '=', sandboxID)
      .where('run_id', '=', runID)
      .where('state', '<>', 'ended')
      .where('node_id', '=', this.#nodeID)
      .executeTakeFirstOrThrow()
    return updated.numUpdatedRows > 0n
  }

  async setEnd(
    at: EndFence,
    endAt: number,
    onlyExtend: boolean,
    named?: NamedChange,
  ): Promise<Sandbox | undefined> {
    const { sandboxID, runID } = at
    const fence = { ...at, from: ['running'], nodeID: this.#nodeID } as const
    const changed = await this.#update({
      fence: { ...fence, ...(onlyExtend && { endsBefore: endAt }) },
      columns: { end_at: endAt },
      keepsVersion: true,
      named,
      news: { type: 'updated', changed: 'timeout' },
    })
    if (changed || !onlyExtend) return changed
    // If the sandbox still runs, it already ends no earlier.
    const row = await this.find(sandboxID)
    return row?.runID === runID && row.state === 'running' ? row : undefined
  }

  async listExpired(now: number, kind: ExpiryKind, limit: number): Promise<Sandbox[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where(isRunning)
      .where('node_id', '=', this.#nodeID)
      .where(endsBy(kind))
      .where('end_at', '<=', now)
      .orderBy('end_at')
      .orderBy('id')
      .limit(limit)
      .execute()
    return rows.map(this.#read)
  }

  async nextEnd(kind: ExpiryKind): Promise<number | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .select('end_at')
      .where(isRunning)
      .where(endsBy(kind))
      .where('node_id', '=', this.#nodeID)
      .orderBy('end_at')
      .limit(1)
      .executeTakeFirst()
    return row?.end_at
  }

  async listLocked(): Promise<{ sandboxID: string; why: string }[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select(['id', 'team_id', 'network_key_id', 'network_sealed'])
      .where(isUnended)
      .where('node_id', '=', this.#nodeID)
      .where('network_sealed', 'is not', null)
      .orderBy('id')
      .execute()
    return rows.flatMap((row) => {
      const why = whyLocked(row, this.#vault)
      return why === undefined ? [] : [{ sandboxID: row.id, why }]
    })
  }

  async listSnapshotNames(): Promise<string[]> {
    const names: string[] = []
    const parts = unendedInParts(this.#db, (part) =>
      part.select(['id', 'run_id', 'state', 'saved']).execute(),
    )
    for await (const rows of parts) {
      for (const { id, run_id, state, saved } of rows) {
        // A pause that was cut off may have taken its snapshot although the row does not name it yet.
        if (state !== 'paused') names.push(pauseSnapshotName({ sandboxID: id, runID: run_id }))
        if (saved !== null) names.push((JSON.parse(saved) as SandboxSnapshot).name)
      }
    }
    return names
  }

  reopen(
    sandboxID: string,
    { snapshot, handle, runID, endAt }: Parameters<SandboxStore['reopen']>[1],
    named?: NamedChange,
  ): Promise<Sandbox | undefined> {
    return this.#db.transaction().execute(async (transaction) => {
      if (!(await lockQuarantined(transaction, snapshot.name))) return undefined
      const cleared = {
        ended_at: null,
        end_reason: null,
        run_until: null,
        ...nothingStored,
      }
      const update: RowUpdate = {
        fence: { sandboxID, from: ['ended'], nodeID: this.#nodeID },
        columns: { ...changedColumns({ snapshot, handle, runID, endAt }), ...cleared, state: 'paused' },
        named,
        news: { type: 'paused' },
      }
      const reopened = await updateWithEvents(transaction, update, this.#read)
      if (!reopened) return undefined
      await transaction.deleteFrom('quarantine').where('snapshot_name', '=', snapshot.name).execute()
      return reopened
    })
  }

  async releaseClaim(teamID: string, sandboxID: string): Promise<void> {
    await this.#db
      .deleteFrom('idempotency_claims')
      .where('team_id', '=', teamID)
      .where('sandbox_id', '=', sandboxID)
      .execute()
  }

  /** Counts only the removed rows of sandboxes. */
  prune(before: number): Promise<number> {
    return this.#db.transaction().execute(async (transaction) => {
      for (const table of ['idempotency_claims', 'given_up_creates'] as const)
        await transaction.deleteFrom(table).where('created_at', '<', before).execute()
      const { numDeletedRows } = await transaction
        .deleteFrom('sandboxes')
        .where(isEnded)
        .where('ended_at', '<', before)
        .where(({ not, exists, selectFrom }) =>
          not(
            exists(
              selectFrom('quarantine')
                .select('snapshot_name')
                .whereRef('quarantine.sandbox_id', '=', 'sandboxes.id'),
            ),
          ),
        )
        .executeTakeFirstOrThrow()
      return Number(numDeletedRows)
    })
  }
}
