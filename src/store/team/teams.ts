import type { Kysely } from 'kysely'
import type { Team, TeamLimits } from '../../core/team/team.ts'
import type { TeamStore } from '../../core/team/team-store.ts'
import { AppError, isAppError } from '../../lib/app-error.ts'
import type { Tables, TeamRow } from '../database/tables.ts'
import { unknownTeam } from '../usage/limits.ts'
import { deleteUnusedTeam } from './team-deletion.ts'

export class SqlTeamStore implements TeamStore {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async insertTeam(team: Team): Promise<void> {
    try {
      await this.#db.insertInto('teams').values(rowOf(team)).execute()
    } catch (cause) {
      if (!isAppError(cause, 'already_exists')) throw cause
      const message = `A team with the slug '${team.slug}' exists already; choose another slug`
      throw new AppError('already_exists', message, { cause })
    }
  }

  async findTeam(idOrSlug: string): Promise<Team | undefined> {
    const rows = await this.#db
      .selectFrom('teams')
      .selectAll()
      .where((where) => where.or([where('id', '=', idOrSlug), where('slug', '=', idOrSlug)]))
      .execute()
    // A slug may look like another team's ID; the ID wins.
    const row = rows.find(({ id }) => id === idOrSlug) ?? rows[0]
    return row && teamOf(row)
  }

  async listTeams(): Promise<Team[]> {
    const rows = await this.#db.selectFrom('teams').selectAll().orderBy('created_at').orderBy('id').execute()
    return rows.map(teamOf)
  }

  async setLimits(teamID: string, limits: TeamLimits): Promise<void> {
    const updated = await this.#db
      .updateTable('teams')
      .set(limitColumns(limits))
      .where('id', '=', teamID)
      .executeTakeFirstOrThrow()
    if (updated.numUpdatedRows === 0n) throw unknownTeam(teamID)
  }

  async setOlderClients(teamID: string, allowed: boolean): Promise<void> {
    const updated = await this.#db
      .updateTable('teams')
      .set({ older_clients: allowed ? 1 : 0 })
      .where('id', '=', teamID)
      .executeTakeFirstOrThrow()
    if (updated.numUpdatedRows === 0n) throw unknownTeam(teamID)
  }

  deleteUnused(teamID: string) {
    return deleteUnusedTeam(this.#db, teamID)
  }
}

function limitColumns(limits: TeamLimits) {
  return {
    max_sandboxes: limits.maxSandboxes,
    max_cpu: limits.maxCPU,
    max_memory_mb: limits.maxMemoryMB,
    max_lifetime_hours: limits.maxLifetimeHours,
    max_gpus: limits.maxGPUs,
  }
}

function rowOf(team: Team): TeamRow {
  return {
    id: team.teamID,
    slug: team.slug,
    name: team.name,
    ...limitColumns(team.limits),
    older_clients: team.olderClients ? 1 : 0,
    created_at: team.createdAt,
  }
}

export function teamOf(row: TeamRow): Team {
  return {
    teamID: row.id,
    slug: row.slug,
    name: row.name,
    limits: {
      maxSandboxes: row.max_sandboxes,
      maxCPU: row.max_cpu,
      maxMemoryMB: row.max_memory_mb,
      maxLifetimeHours: row.max_lifetime_hours,
      maxGPUs: row.max_gpus,
    },
    olderClients: row.older_clients === 1,
    createdAt: row.created_at,
  }
}
