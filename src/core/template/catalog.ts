/** Finds the build that a team's template reference selects. */
import { AppError } from '../../lib/app-error.ts'
import type { Team } from '../team/team.ts'
import { defaultTag, parseTemplateReference } from './reference.ts'
import type { ResolvedTemplate, SnapshotEntry, Template, TemplateName } from './template.ts'
import type { NamedTemplate, SnapshotFilter, TemplateStore } from './template-store.ts'

export class TemplateCatalog {
  readonly #store: TemplateStore
  #whenMissing: (alias: string) => Promise<AppError | undefined> = async () => undefined

  constructor(store: TemplateStore) {
    this.#store = store
  }

  /**
   * `explain` is called for names without a template or a finished build; the error that it returns is
   * thrown.
   */
  onMissing(explain: (alias: string) => Promise<AppError | undefined>): void {
    this.#whenMissing = explain
  }

  async resolve(team: Team, text: string): Promise<ResolvedTemplate> {
    const { alias, tag } = parseTemplateReference(text)
    const named = await this.#findNamed(team, text)
    if (!named) {
      throw (await this.#whenMissing(alias)) ?? new AppError('not_found', `template '${text}' not found`)
    }
    const { template } = named
    if (!isUsableBy(team, template)) throw notYours(text)
    const build = await this.#store.findReadyBuild(template.templateID, tag)
    if (!build) {
      const known = tag === defaultTag ? await this.#whenMissing(alias) : undefined
      if (known) throw known
      const missing =
        tag === defaultTag
          ? `template '${alias}' has no finished build`
          : `tag '${tag}' does not exist for template '${alias}'`
      throw new AppError('not_found', missing)
    }
    return { ...named, build }
  }

  /** A name without a tag matches any tag; an unknown name matches no snapshot. */
  async listSnapshots(
    team: Team,
    { sandboxID, name }: { sandboxID?: string; name?: string },
    page: { limit: number; after?: { createdAt: number; templateID: string } },
  ): Promise<(SnapshotEntry & { snapshotID: string; names: string[] })[]> {
    const filter: SnapshotFilter = { teamID: team.teamID, ...(sandboxID !== undefined && { sandboxID }) }
    if (name !== undefined) {
      const template = await this.find(team, name)
      if (!template) return []
      filter.templateID = template.templateID
      if (name.includes(':')) filter.tag = parseTemplateReference(name).tag
    }
    const entries = await this.#store.listSnapshots(filter, page)
    return Promise.all(
      entries.map(async (entry) => {
        const names = (await this.#store.namesOf(entry.templateID)).map(fullName)
        return { ...entry, snapshotID: `${names[0] ?? entry.templateID}:${entry.tag}`, names }
      }),
    )
  }

  /** Undefined if the team may not use the template. */
  async find(team: Team, text: string): Promise<Template | undefined> {
    const found = await this.findOfAny(team, text)
    return found && isUsableBy(team, found) ? found : undefined
  }

  /** Finds the template with this name outside of all namespaces. */
  findPublic(alias: string): Promise<Template | undefined> {
    return this.#store.findByAlias(null, alias)
  }

  /**
   * Finds a template of any team: by the team's own name first, then by a name without namespace, then by ID.
   */
  async findOfAny(team: Team, text: string): Promise<Template | undefined> {
    return (await this.#findNamed(team, text))?.template
  }

  async #findNamed(team: Team, text: string): Promise<NamedTemplate | undefined> {
    const { namespace, alias } = parseTemplateReference(text)
    if (namespace !== null) return this.#store.findNamed([{ namespace, alias }])
    const names = [team.slug, null].map((one) => ({ namespace: one, alias }))
    return this.#store.findNamed(names, alias)
  }
}

export function isUsableBy(team: Team, template: Template): boolean {
  return template.public || template.teamID === null || template.teamID === team.teamID
}

export const notYours = (text: string) =>
  new AppError('permission_denied', `You don't have access to template '${text}'`)

export function fullName({ namespace, alias }: TemplateName): string {
  return namespace === null ? alias : `${namespace}/${alias}`
}
