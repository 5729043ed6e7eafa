import { type Kysely, sql, type Transaction } from 'kysely'
import type { EventType } from '../../core/event/event.ts'
import { type Budget, type BudgetLimits, noBudget } from '../../core/usage/budget.ts'
import { type DayUsage, sumByDay, type UsedRun, usageOfRun } from '../../core/usage/usage.ts'
import type { UsageFilter, UsageStore } from '../../core/usage/usage-store.ts'
import type { Tables } from '../database/tables.ts'
import type { UsageDayRow } from '../database/usage-tables.ts'
import { lockTeam } from './limits.ts'
import { isUnended } from './sandbox-counts.ts'

/** Events with which a run ends. As literals: only then does the engine use the index of those that were not counted. */
const finishing = [sql.lit<EventType>('paused'), sql.lit<EventType>('killed')]
/** A run goes on until the event that ends it. */
const runningStates = ['running', 'pausing', 'snapshotting'] as const
/** Limits the number of bound values of one insert to what either engine takes. */
const rowsPerInsert = 500

type FinishedEvent = { sandbox_id: string; team_id: string; data: string; at: number }

export class SqlUsageStore implements UsageStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  countFinishedRuns(max: number): Promise<number> {
    return this.#db.transaction().execute(async (transaction) => {
      const events = await transaction
        .updateTable('sandbox_events')
        .set({ is_counted: 1 })
        .where(
          ({ refTuple, selectFrom }) =>
            sql<boolean>`${refTuple('sandbox_id', 'number')} in ${selectFrom('sandbox_events as uncounted')
              .select(['uncounted.sandbox_id', 'uncounted.number'])
              .where('uncounted.is_counted', '=', sql.lit(0))
              .where('uncounted.type', 'in', finishing)
              .orderBy('uncounted.at')
              .limit(max)}`,
        )
        // Another node may have counted it while this statement waited.
        .where('is_counted', '=', sql.lit(0))
        .returning(['sandbox_id', 'team_id', 'data', 'at'])
        .execute()
      await insertDays(transaction, (await runsOf(transaction, events)).flatMap(usageOfRun))
      return events.length
    })
  }

  async add(usage: readonly DayUsage[]): Promise<void> {
    await this.#db.transaction().execute((transaction) => insertDays(transaction, usage))
  }

  read({ teamID, firstDay, lastDay, now }: UsageFilter): Promise<DayUsage[]> {
    const reading = this.#db.transaction().setIsolationLevel('repeatable read')
    return reading.execute(async (transaction) => {
      const days = await transaction
        .selectFrom('usage_days')
        .selectAll()
        .where('day', '>=', firstDay)
        .where('day', '<=', lastDay)
        .$if(teamID !== undefined, (query) => query.where('team_id', '=', teamID!))
        .execute()
      const events = await transaction
        .selectFrom('sandbox_events')
        .select(['sandbox_id', 'team_id', 'data', 'at'])
        .where('is_counted', '=', sql.lit(0))
        .where('type', 'in', finishing)
        .$if(teamID !== undefined, (query) => query.where('team_id', '=', teamID!))
        .execute()
      const going = await transaction
        .selectFrom('sandboxes')
        .select(['team_id', 'owner_person_id', 'started_at', 'cpu_count', 'memory_mb', 'gpu_count'])
        .where(isUnended)
        .where('state', 'in', runningStates)
        .$if(teamID !== undefined, (query) => query.where('team_id', '=', teamID!))
        .execute()
      const runs = [
        ...(await runsOf(transaction, events)),
        ...going.map((row) => ({
          teamID: row.team_id,
          personID: row.owner_person_id,
          startedAt: row.started_at,
          endedAt: now,
          cpuCount: row.cpu_count,
          memoryMB: row.memory_mb,
          gpuCount: row.gpu_count,
        })),
      ]
      const isAskedFor = ({ day }: DayUsage) => day >= firstDay && day <= lastDay
      return sumByDay([...days.map(dayUsageOf), ...runs.flatMap(usageOfRun).filter(isAskedFor)])
    })
  }

  async prune(firstDay: string): Promise<void> {
    await this.#db.deleteFrom('usage_days').where('day', '<', firstDay).execute()
  }

  async findBudget(teamID: string): Promise<Budget | undefined> {
    const row = await this.#db
      .selectFrom('team_budgets')
      .selectAll()
      .where('team_id', '=', teamID)
      .executeTakeFirst()
    return row && budgetOf(row)
  }

  async listBudgets(): Promise<Budget[]> {
    return (await this.#db.selectFrom('team_budgets').selectAll().orderBy('team_id').execute()).map(budgetOf)
  }

  async changeBudget(teamID: string, changes: Partial<BudgetLimits>): Promise<Budget> {
    return this.#db.transaction().execute(async (transaction) => {
      await lockTeam(transaction, teamID)
      const before = await transaction
        .selectFrom('team_budgets')
        .selectAll()
        .where('team_id', '=', teamID)
        .executeTakeFirst()
      const budget = { ...noBudget, ...(before && budgetOf(before)), ...changes, teamID }
      const limits = { cpu_hours: budget.cpuHours, gpu_hours: budget.gpuHours, sent_gb: budget.sentGB }
      await transaction
        .insertInto('team_budgets')
        .values({ team_id: teamID, ...limits })
        .onConflict((conflict) => conflict.column('team_id').doUpdateSet(limits))
        .execute()
      return budget
    })
  }
}

const budgetOf = (row: Tables['team_budgets']): Budget => ({
  teamID: row.team_id,
  cpuHours: row.cpu_hours,
  gpuHours: row.gpu_hours,
  sentGB: row.sent_gb,
})

const dayUsageOf = (row: UsageDayRow): DayUsage => ({
  day: row.day,
  teamID: row.team_id,
  personID: row.person_id === '' ? null : row.person_id,
  runningMs: row.running_ms,
  cpuMs: row.cpu_ms,
  memoryMBMs: row.memory_mb_ms,
  gpuMs: row.gpu_ms,
  sentBytes: row.sent_bytes,
  storedMBMs: row.stored_mb_ms,
})

/** The run that each event ended. A paused sandbox that is killed ends none. */
async function runsOf(
  transaction: Transaction<Tables>,
  events: readonly FinishedEvent[],
): Promise<UsedRun[]> {
  const runs = events.flatMap(({ sandbox_id, team_id, data, at }) => {
    const { execution } = JSON.parse(data)
    return execution ? [{ sandboxID: sandbox_id, teamID: team_id, execution, endedAt: at }] : []
  })
  const known = new Map<string, { gpuCount: number; personID: string | null }>()
  for (let start = 0; start < runs.length; start += rowsPerInsert) {
    const ids = runs.slice(start, start + rowsPerInsert).map(({ sandboxID }) => sandboxID)
    const rows = await transaction
      .selectFrom('sandboxes')
      .select(['id', 'owner_person_id', 'gpu_count'])
      .where('id', 'in', ids)
      .execute()
    for (const row of rows) known.set(row.id, { gpuCount: row.gpu_count, personID: row.owner_person_id })
  }
  return runs.map(({ sandboxID, teamID, execution, endedAt }) => ({
    teamID,
    startedAt: endedAt - execution.execution_time,
    endedAt,
    cpuCount: execution.vcpu_count,
    memoryMB: execution.memory_mb,
    ...(known.get(sandboxID) ?? { gpuCount: 0, personID: null }),
  }))
}

const amountColumns = [
  'running_ms',
  'cpu_ms',
  'memory_mb_ms',
  'gpu_ms',
  'sent_bytes',
  'stored_mb_ms',
] as const satisfies (keyof UsageDayRow)[]

async function insertDays(transaction: Transaction<Tables>, usage: readonly DayUsage[]): Promise<void> {
  const rows = sumByDay(usage).map((each) => ({
    team_id: each.teamID,
    person_id: each.personID ?? '',
    day: each.day,
    running_ms: Math.round(each.runningMs),
    cpu_ms: Math.round(each.cpuMs),
    memory_mb_ms: Math.round(each.memoryMBMs),
    gpu_ms: Math.round(each.gpuMs),
    sent_bytes: Math.round(each.sentBytes),
    stored_mb_ms: Math.round(each.storedMBMs),
  }))
  for (let start = 0; start < rows.length; start += rowsPerInsert) {
    await transaction
      .insertInto('usage_days')
      .values(rows.slice(start, start + rowsPerInsert))
      .onConflict((conflict) =>
        conflict
          .columns(['team_id', 'day', 'person_id'])
          .doUpdateSet((row) =>
            Object.fromEntries(
              amountColumns.map((name) => [
                name,
                sql`${row.ref(`usage_days.${name}`)} + ${row.ref(`excluded.${name}`)}`,
              ]),
            ),
          ),
      )
      .execute()
  }
}
