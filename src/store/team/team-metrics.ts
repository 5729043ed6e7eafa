import type { Kysely } from 'kysely'
import { wireStates } from '../../core/sandbox/row/sandbox.ts'
import type { TeamMetric } from '../../core/team/metric.ts'
import type { TeamMetricStore } from '../../core/team/team-store.ts'
import type { Tables } from '../database/tables.ts'
import { isUnended } from '../usage/sandbox-counts.ts'

/** Limits the number of bound values of one insert to what either engine takes. */
const rowsPerInsert = 1000

export class SqlTeamMetricStore implements TeamMetricStore {
  readonly #db: Kysely<Tables>
  readonly #nodeID: string

  constructor(db: Kysely<Tables>, nodeID: string) {
    this.#db = db
    this.#nodeID = nodeID
  }

  async append(samples: readonly TeamMetric[]): Promise<void> {
    const rows = samples.map(({ teamID, at, concurrentSandboxes, startedSandboxes }) => ({
      team_id: teamID,
      at,
      node_id: this.#nodeID,
      concurrent_sandboxes: concurrentSandboxes,
      started_sandboxes: startedSandboxes,
    }))
    for (let start = 0; start < rows.length; start += rowsPerInsert) {
      const insert = this.#db.insertInto('team_metrics').values(rows.slice(start, start + rowsPerInsert))
      await insert.onConflict((conflict) => conflict.doNothing()).execute()
    }
  }

  async range(teamID: string, from: number, to: number): Promise<TeamMetric[]> {
    const rows = await this.#db
      .selectFrom('team_metrics')
      .select('at')
      .select(({ fn }) => [
        fn.sum<number>('concurrent_sandboxes').as('concurrent'),
        fn.sum<number>('started_sandboxes').as('started'),
      ])
      .where('team_id', '=', teamID)
      .where('at', '>=', from)
      .where('at', '<=', to)
      .groupBy('at')
      .orderBy('at')
      .execute()
    return rows.map(({ at, concurrent, started }) => ({
      teamID,
      at,
      concurrentSandboxes: Number(concurrent),
      startedSandboxes: Number(started),
    }))
  }

  async count(startedSince: number): Promise<Omit<TeamMetric, 'at'>[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select('team_id')
      .select(({ fn }) => [
        fn.countAll<number>().as('running'),
        fn.countAll<number>().filterWhere('started_at', '>=', startedSince).as('started'),
      ])
      .where('node_id', '=', this.#nodeID)
      .where(isUnended)
      .where('state', 'in', wireStates.running)
      .groupBy('team_id')
      .execute()
    return rows.map(({ team_id, running, started }) => ({
      teamID: team_id,
      concurrentSandboxes: Number(running),
      startedSandboxes: Number(started),
    }))
  }

  async countNow(teamID: string, startedSince: number): Promise<Omit<TeamMetric, 'at' | 'teamID'>> {
    const { running, started } = await this.#db
      .selectFrom('sandboxes')
      .select(({ fn }) => [
        fn.countAll<number>().as('running'),
        fn.countAll<number>().filterWhere('started_at', '>=', startedSince).as('started'),
      ])
      .where('team_id', '=', teamID)
      .where(isUnended)
      .where('state', 'in', wireStates.running)
      .executeTakeFirstOrThrow()
    return { concurrentSandboxes: Number(running), startedSandboxes: Number(started) }
  }

  async countRunning(): Promise<{ teamID: string; count: number }[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select('team_id')
      .select(({ fn }) => fn.countAll<number>().as('running'))
      .where(isUnended)
      .where('state', 'in', wireStates.running)
      .groupBy('team_id')
      .execute()
    return rows.map(({ team_id, running }) => ({ teamID: team_id, count: Number(running) }))
  }

  async prune(before: number): Promise<void> {
    await this.#db.deleteFrom('team_metrics').where('at', '<', before).execute()
  }
}
