/** Deletes templates that nobody uses. */
import { AppError } from '../../lib/app-error.ts'
import type { SandboxStore, TemplateStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from './catalog.ts'

export type RemovalParts = {
  /** Frees what nobody owns any more. */
  sweep: () => Promise<void>
  /** Calls off a build that is under way. */
  callOff: (buildID: string) => Promise<void>
  catalog: TemplateCatalog
  templates: TemplateStore
  sandboxes: SandboxStore
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
    await this.#refuseWhileUsed(templateID)
    // What its builds kept may be another build's too: the sweep removes what nobody owns any more.
    const builds = await templates.deleteTemplate(templateID)
    if (!builds) throw new AppError('not_found', `template '${reference}' not found`)
    await Promise.all(builds.map(({ buildID }) => callOff(buildID)))
    await sweep()
  }

  /** Of a public template those of other teams count too: without its build none could be resumed again. */
  async #refuseWhileUsed(templateID: string): Promise<void> {
    const users = (await this.#parts.sandboxes.listUnended()).filter((row) => row.templateID === templateID)
    if (users.length === 0) return
    const word = users.some(({ state }) => state !== 'paused') ? 'running' : 'paused'
    throw new AppError(
      'invalid_argument',
      `cannot delete template '${templateID}' because there are ${word} sandboxes using it`,
    )
  }
}
