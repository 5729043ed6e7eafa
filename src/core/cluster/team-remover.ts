/** Deletes teams, and on request everything that they still have. Each node removes its own part. */
import { AppError, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { SandboxReader } from '../sandbox/row/sandbox-store.ts'
import type { Team } from '../team/team.ts'
import type { TeamStore } from '../team/team-store.ts'
import type { TemplateStore } from '../template/template-store.ts'
import type { OwnerStore, UnfinishedCount } from './owner-store.ts'

const perPage = 100

type TeamRemoverParts = {
  teams: TeamStore
  sandboxes: SandboxReader
  templates: TemplateStore
  owners: Pick<OwnerStore, 'countUnfinished'>
  killSandbox: (team: Team, sandboxID: string) => Promise<void>
  removeTemplate: (team: Team, templateID: string) => Promise<void>
  /** Removes the team's volumes on this node. */
  removeVolumes: (team: Team) => Promise<void>
  clock: Clock
}

type TeamRemoval = {
  force: boolean
  /** Nodes that could not be cleared. */
  missing: readonly string[]
}

type KillReport = { killedCount: number; failedCount: number }

export class TeamRemover {
  readonly #parts: TeamRemoverParts

  constructor(parts: TeamRemoverParts) {
    this.#parts = parts
  }

  /** Kills every sandbox of the team on this node, paused ones included. */
  async killSandboxes(team: Team): Promise<KillReport> {
    const { sandboxes, killSandbox } = this.#parts
    const own = (await sandboxes.listUnended()).filter(({ teamID }) => teamID === team.teamID)
    const ends = await Promise.allSettled(own.map(({ sandboxID }) => killSandbox(team, sandboxID)))
    const failed = ends.filter((end) => end.status === 'rejected' && !isAppError(end.reason, 'not_found'))
    return { killedCount: own.length - failed.length, failedCount: failed.length }
  }

  /** Counts the team's sandboxes and builds on these nodes that have not ended. */
  async leftOn(team: Team, nodeIDs: readonly string[]): Promise<UnfinishedCount> {
    if (nodeIDs.length === 0) return { sandboxes: 0, builds: 0 }
    return this.#parts.owners.countUnfinished(team.teamID, nodeIDs)
  }

  /** Ends and deletes everything of the team that only this node can: its sandboxes and volumes here. */
  async clearNode(team: Team): Promise<void> {
    await this.killSandboxes(team)
    await this.#parts.removeVolumes(team)
  }

  /**
   * Rejects with `conflict` while the team has sandboxes, templates or volumes on any node. With `force`,
   * deletes its templates first; call `clearNode` on every node before.
   */
  async remove(team: Team, { force, missing }: TeamRemoval): Promise<void> {
    // A template that still has sandboxes on another node cannot be deleted.
    if (force && (await this.leftOn(team, missing)).sandboxes === 0) await this.#removeTemplates(team)
    const { teams, clock } = this.#parts
    const result = await retryPassing(clock, async (attempt) => {
      const outcome = await teams.deleteUnused(team.teamID)
      // An earlier attempt has deleted the team.
      return outcome ?? (attempt > 0 ? ({ deleted: true } as const) : undefined)
    })
    if (!result)
      throw new AppError('not_found', `Team '${team.slug}' not found; 'warren team list' shows them`)
    if ('deleted' in result) return
    const { sandboxes, templates, volumes } = result
    const advice =
      missing.length > 0
        ? `the nodes ${missing.join(', ')} are away or failed; delete the team again when they are back, or forget them`
        : 'end and delete them first, or delete the team with all of it by --force'
    throw new AppError(
      'conflict',
      `Team '${team.slug}' still has ${sandboxes} sandboxes, ${templates} templates and snapshots, and ${volumes} volumes: ${advice}`,
    )
  }

  async #removeTemplates(team: Team): Promise<void> {
    const { templates } = this.#parts
    const removeTemplate = (templateID: string) =>
      this.#parts.removeTemplate(team, templateID).catch((error) => {
        // Another request has deleted the template since it was listed.
        if (!isAppError(error, 'not_found')) throw error
      })
    const listed = await templates.listTemplates(team.teamID, { order: 'asc', limit: 1_000_000 })
    for (const { template } of listed) await removeTemplate(template.templateID)
    for (;;) {
      const snapshots = await templates.listSnapshots({ teamID: team.teamID }, { limit: perPage })
      for (const { templateID } of snapshots) await removeTemplate(templateID)
      if (snapshots.length < perPage) return
    }
  }
}
