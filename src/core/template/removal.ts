/** Deletes templates that nobody uses. */
import { AppError } from '../../lib/app-error.ts'
import type { SandboxState } from '../sandbox/sandbox.ts'
import type { TemplateStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from './catalog.ts'

export type RemovalParts = {
  /** Frees what nobody owns any more. */
  sweep: () => Promise<void>
  /** Calls off a build that is under way. */
  callOff: (buildID: string) => Promise<void>
  catalog: TemplateCatalog
  templates: TemplateStore
}

export class TemplateRemoval {
  readonly #parts: RemovalParts

  constructor(parts: RemovalParts) {
    this.#parts = parts
  }

  /** The whole template goes, whatever tag the reference names. */
  async remove(team: Team, reference: string): Promise<void> {
    const { catalog, templates, sweep, callOff } = this.#parts
    const template = await catalog.findOfAny(team, reference)
    if (!template) throw new AppError('not_found', `template '${reference}' not found`)
    const { templateID } = template
    if (template.teamID !== team.teamID) {
      throw new AppError(
        'permission_denied',
        `Template '${reference}' is not your team's; only its owner may delete it`,
      )
    }
    const result = await templates.deleteUnused(templateID)
    if (!result) throw new AppError('not_found', `template '${reference}' not found`)
    if ('usedIn' in result) throw inUse(templateID, result.usedIn)
    // What its builds kept may be another build's too: the sweep removes what nobody owns any more.
    await Promise.all(result.deleted.map(({ buildID }) => callOff(buildID)))
    await sweep()
  }
}

/** Of a public template those of other teams count too: without its build none could be resumed again. */
function inUse(templateID: string, states: SandboxState[]): AppError {
  const word = states.some((state) => state !== 'paused') ? 'running' : 'paused'
  return new AppError(
    'invalid_argument',
    `cannot delete template '${templateID}' because there are ${word} sandboxes using it`,
  )
}
