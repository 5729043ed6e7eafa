/** Deletes templates that no sandbox uses. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from './catalog.ts'
import type { TemplateStore } from './template-store.ts'

type TemplateRemoverParts = {
  /** Removes those of the snapshots that nothing else owns. */
  removeSnapshots: (names: readonly string[]) => Promise<void>
  /** Cancels a build that is under way. */
  cancelBuild: (buildID: string) => Promise<void>
  /** Stops the warm pool's sandboxes of the template. */
  dropWarm: (templateID: string) => Promise<unknown>
  catalog: TemplateCatalog
  templates: TemplateStore
  clock: Clock
}

export class TemplateRemover {
  readonly #parts: TemplateRemoverParts

  constructor(parts: TemplateRemoverParts) {
    this.#parts = parts
  }

  /** Deletes the whole template, whatever tag the reference names. */
  async remove(team: Team, reference: string): Promise<void> {
    const { catalog, templates, removeSnapshots, cancelBuild, dropWarm, clock } = this.#parts
    const template = await catalog.findOfAny(team, reference)
    if (!template) throw new AppError('not_found', `template '${reference}' not found`)
    const { templateID } = template
    if (template.teamID !== team.teamID) {
      throw new AppError(
        'permission_denied',
        `Template '${reference}' is not your team's; only its owner may delete it`,
      )
    }
    // Read before the deletion: if its answer is lost, the rows no longer tell which builds it deleted.
    const before = await templates.listBuilds(templateID, { limit: Number.MAX_SAFE_INTEGER })
    const result = await retryPassing(clock, async (attempt) => {
      const deleted = await templates.deleteUnused(templateID)
      return deleted ?? (attempt > 0 ? { deleted: before } : undefined)
    })
    if (!result) throw new AppError('not_found', `template '${reference}' not found`)
    if ('usedIn' in result) throw inUse(templateID, result.usedIn)
    await Promise.all(result.deleted.map(({ buildID }) => cancelBuild(buildID)))
    await dropWarm(templateID)
    await removeSnapshots(result.deleted.flatMap(({ snapshot }) => (snapshot ? [snapshot.name] : [])))
  }
}

/**
 * Sandboxes of other teams count too if the template is public: without its build they could not be resumed.
 */
function inUse(templateID: string, states: readonly string[]): AppError {
  const word = states.some((state) => state !== 'paused') ? 'running' : 'paused'
  return new AppError(
    'invalid_argument',
    `cannot delete template '${templateID}' because there are ${word} sandboxes using it`,
  )
}
