/** Deletes teams, and ends what they still have when that is asked for. */
import { AppError, isAppError } from '../../lib/app-error.ts'
import type { SandboxStore, TeamStore, TemplateStore } from '../stores.ts'
import type { Team } from './team.ts'

const perPage = 100

export type TeamRemoverParts = {
  teams: TeamStore
  sandboxes: SandboxStore
  templates: TemplateStore
  killSandbox: (team: Team, sandboxID: string) => Promise<void>
  removeTemplate: (team: Team, templateID: string) => Promise<void>
  removeVolumes: (team: Team) => Promise<void>
}

export type KillReport = { killedCount: number; failedCount: number }

export class TeamRemover {
  readonly #parts: TeamRemoverParts

  constructor(parts: TeamRemoverParts) {
    this.#parts = parts
  }

  /** Kills every sandbox of the team, paused ones included. */
  async killSandboxes(team: Team): Promise<KillReport> {
    const { sandboxes, killSandbox } = this.#parts
    const own = (await sandboxes.listUnended()).filter(({ teamID }) => teamID === team.teamID)
    const ends = await Promise.allSettled(own.map(({ sandboxID }) => killSandbox(team, sandboxID)))
    const failed = ends.filter((end) => end.status === 'rejected' && !isAppError(end.reason, 'not_found'))
    return { killedCount: own.length - failed.length, failedCount: failed.length }
  }

  /** Rejects with `conflict` while the team has sandboxes, templates or volumes, unless `force` ends those first. */
  async remove(team: Team, { force }: { force: boolean }): Promise<void> {
    if (force) {
      await this.killSandboxes(team)
      await this.#removeTemplates(team)
      await this.#parts.removeVolumes(team)
    }
    const result = await this.#parts.teams.deleteUnused(team.teamID)
    if (!result)
      throw new AppError('not_found', `Team '${team.slug}' not found; 'warren team list' shows them`)
    if ('deleted' in result) return
    const { sandboxes, templates, volumes } = result
    throw new AppError(
      'conflict',
      `Team '${team.slug}' still has ${sandboxes} sandboxes, ${templates} templates and snapshots, and ${volumes} volumes: ` +
        'end and delete them first, or delete the team with all of it by --force',
    )
  }

  async #removeTemplates(team: Team): Promise<void> {
    const { templates, removeTemplate } = this.#parts
    const listed = await templates.listTemplates(team.teamID, { order: 'asc', limit: 1_000_000 })
    for (const { template } of listed) await removeTemplate(team, template.templateID)
    for (;;) {
      const snapshots = await templates.listSnapshots({ teamID: team.teamID }, { limit: perPage })
      for (const { templateID } of snapshots) await removeTemplate(team, templateID)
      if (snapshots.length < perPage) return
    }
  }
}
