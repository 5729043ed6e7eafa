/** Finds the build that a template reference means for a team. */
import { AppError } from '../../lib/app-error.ts'
import type { TemplateStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import { defaultTag, parseTemplateReference } from './reference.ts'
import type { ResolvedTemplate, Template } from './template.ts'

export class TemplateCatalog {
  readonly #store: TemplateStore

  constructor(store: TemplateStore) {
    this.#store = store
  }

  async resolve(team: Team, text: string): Promise<ResolvedTemplate> {
    const { alias, tag } = parseTemplateReference(text)
    const template = await this.find(team, text)
    if (!template) throw new AppError('not_found', `template '${text}' not found`)
    const build = await this.#store.findReadyBuild(template.templateID, tag)
    if (!build) {
      const missing =
        tag === defaultTag
          ? `template '${alias}' has no finished build`
          : `tag '${tag}' does not exist for template '${alias}'`
      throw new AppError('not_found', missing)
    }
    const [firstAlias] = await this.#store.aliasesOf(template.templateID)
    return { template, build, alias: firstAlias ?? null }
  }

  /** The team's own name first, then a public name without namespace, then a template id. */
  async find(team: Team, text: string): Promise<Template | undefined> {
    const { namespace, alias } = parseTemplateReference(text)
    const found =
      namespace !== null
        ? await this.#store.findByAlias(namespace, alias)
        : ((await this.#store.findByAlias(team.slug, alias)) ??
          (await this.#store.findByAlias(null, alias)) ??
          (await this.#store.findByID(alias)))
    if (!found) return undefined
    const usable = found.public || found.teamID === null || found.teamID === team.teamID
    return usable ? found : undefined
  }
}
