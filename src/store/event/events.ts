import type { Kysely } from 'kysely'
import type { LifecycleEvent } from '../../core/event/event.ts'
import type { EventFilter, EventPage, EventStore } from '../../core/event/event-store.ts'
import type { SandboxEventRow, Tables } from '../database/tables.ts'

export class SqlEventStore implements EventStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async list(
    { teamID, sandboxID, types }: EventFilter,
    { order, offset, limit }: EventPage,
  ): Promise<LifecycleEvent[]> {
    let query = this.#db.selectFrom('sandbox_events').selectAll().where('team_id', '=', teamID)
    if (sandboxID === undefined) query = query.orderBy('at', order)
    else query = query.where('sandbox_id', '=', sandboxID)
    if (types !== undefined) query = query.where('type', 'in', types)
    const rows = await query
      .orderBy('sandbox_id', order)
      .orderBy('number', order)
      .limit(limit)
      .offset(offset)
      .execute()
    return rows.map(eventOf)
  }

  async prune(before: number, maxPerTeam: number): Promise<void> {
    await this.#db.deleteFrom('sandbox_events').where('at', '<', before).execute()
    const teams = await this.#db
      .selectFrom('sandbox_events')
      .select('team_id')
      .groupBy('team_id')
      .having(({ fn }) => fn.countAll<number>(), '>', maxPerTeam)
      .execute()
    for (const { team_id } of teams) await this.#pruneTeam(team_id, maxPerTeam)
  }

  /** Also retains all events of the same millisecond as the oldest one that stays. */
  async #pruneTeam(teamID: string, max: number): Promise<void> {
    const oldest = await this.#db
      .selectFrom('sandbox_events')
      .select('at')
      .where('team_id', '=', teamID)
      .orderBy('at', 'desc')
      .offset(max - 1)
      .limit(1)
      .executeTakeFirst()
    if (!oldest) return
    await this.#db
      .deleteFrom('sandbox_events')
      .where('team_id', '=', teamID)
      .where('at', '<', oldest.at)
      .execute()
  }
}

function eventOf(row: SandboxEventRow): LifecycleEvent {
  return {
    eventID: row.id,
    number: row.number,
    type: row.type,
    sandboxID: row.sandbox_id,
    teamID: row.team_id,
    templateID: row.template_id,
    buildID: row.build_id,
    runID: row.run_id,
    data: JSON.parse(row.data),
    at: row.at,
  }
}
