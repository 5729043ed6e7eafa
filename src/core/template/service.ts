/**
 * Templates as their teams see them: names, tags, visibility, lists. The lifecycle of builds is in
 * build-service.ts.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Team } from '../team/team.ts'
import { isUsableBy, notYours, type TemplateCatalog } from './catalog.ts'
import { defaultTag, parseTag, parseTemplateName, parseTemplateReference } from './reference.ts'
import type { ReadyAssignment } from './tag-history.ts'
import type { TagAssignment, Template, TemplateBuild, TemplateName, TemplateSummary } from './template.ts'
import type { TemplateStore } from './template-store.ts'

type TemplateServiceParts = { templates: TemplateStore; catalog: TemplateCatalog; clock: Clock }

export class TemplateService {
  readonly #parts: TemplateServiceParts

  constructor(parts: TemplateServiceParts) {
    this.#parts = parts
  }

  list(
    team: Team,
    page: { order: 'asc' | 'desc'; limit: number; after?: { createdAt: number; templateID: string } },
  ): Promise<TemplateSummary[]> {
    return this.#parts.templates.listTemplates(team.teamID, page)
  }

  async read(
    team: Team,
    templateID: string,
    page: { limit: number; after?: { createdAt: number; buildID: string } },
  ): Promise<{ summary: TemplateSummary; builds: TemplateBuild[] }> {
    const { templates } = this.#parts
    const template = await this.own(team, templateID)
    const summary = await templates.summaryOf(template.templateID)
    if (!summary) throw notFound(templateID)
    return { summary, builds: await templates.listBuilds(template.templateID, page) }
  }

  /** The template that every team gets by this name. Undefined if there is none. */
  async readPublic(alias: string): Promise<TemplateSummary | undefined> {
    const { templates, catalog } = this.#parts
    const template = await catalog.findPublic(alias)
    return template && templates.summaryOf(template.templateID)
  }

  /** With `promote` the template also gets its name without the namespace. */
  async setPublic(
    team: Team,
    templateID: string,
    isPublic: boolean | undefined,
    promote: boolean,
  ): Promise<TemplateName[]> {
    const { templates, clock } = this.#parts
    const template = await this.own(team, templateID)
    const [first] = await templates.namesOf(template.templateID)
    // Adds the name first, because another template may have it already.
    if (promote && isPublic === true && first) {
      await templates.addName(template.templateID, { namespace: null, alias: first.alias })
    }
    if (isPublic !== undefined) await templates.setPublic(template.templateID, isPublic, clock.now())
    return templates.namesOf(template.templateID)
  }

  /** Finds the template of any team by name. If the name has a tag, that tag must exist too. */
  async lookUp(team: Team, text: string): Promise<Template> {
    const { templates, catalog } = this.#parts
    const { alias, tag } = parseTemplateReference(text)
    const found = await catalog.findOfAny(team, text)
    if (!found) throw new AppError('not_found', `template '${text}' not found`)
    if (!isUsableBy(team, found)) throw notYours(text)
    if (tag !== defaultTag && !(await templates.findReadyBuild(found.templateID, tag))) {
      throw new AppError('not_found', `tag '${tag}' does not exist for template '${alias}'`)
    }
    return found
  }

  async assignTags(team: Team, target: string, tags: string[]): Promise<{ buildID: string; tags: string[] }> {
    const { templates, clock } = this.#parts
    const { tag } = parseTemplateReference(target)
    const wanted = [...new Set(tags.map(parseTag))]
    if (wanted.length === 0) throw new AppError('invalid_argument', 'At least one tag is required')
    const template = await this.own(team, target)
    const build = await templates.findReadyBuild(template.templateID, tag)
    if (!build) throw new AppError('not_found', `tag '${tag}' does not exist for template '${target}'`)
    await templates.assignTags(template.templateID, build.buildID, wanted, clock.now())
    return { buildID: build.buildID, tags: wanted }
  }

  async removeTags(team: Team, name: string, tags: string[]): Promise<void> {
    if (name.includes(':')) {
      throw new AppError('invalid_argument', 'Invalid name: give the template without a tag')
    }
    const wanted = tags.map(parseTag)
    if (wanted.length === 0) throw new AppError('invalid_argument', 'At least one tag is required')
    if (wanted.includes(defaultTag)) {
      throw new AppError('invalid_argument', `The tag '${defaultTag}' cannot be removed`)
    }
    const template = await this.own(team, name)
    await this.#parts.templates.removeTags(template.templateID, wanted)
  }

  async listTags(team: Team, templateID: string): Promise<TagAssignment[]> {
    const template = await this.own(team, templateID)
    return this.#parts.templates.listTags(template.templateID)
  }

  /** Says of another team's template that there is none. */
  async listReadyAssignments(team: Team, templateID: string, tag?: string): Promise<ReadyAssignment[]> {
    const { templates, catalog } = this.#parts
    const template = await catalog.findOfAny(team, templateID)
    if (template?.teamID !== team.teamID) throw notFound(templateID)
    return templates.listReadyAssignments(template.templateID, tag)
  }

  listDefaults(): Promise<TemplateSummary[]> {
    return this.#parts.templates.listDefaultTemplates()
  }

  /** Finds the team's own template by ID or name; rejects another team's template even if it is public. */
  async own(team: Team, text: string): Promise<Template> {
    const template = await this.#parts.catalog.findOfAny(team, text)
    if (!template) throw notFound(text)
    if (template.teamID !== team.teamID) throw notYours(text)
    return template
  }
}

/** Parses the name of a template that the team is to own. */
export function parseOwnName(team: Team, text: string) {
  const name = parseTemplateName(text)
  parseTag(name.tag)
  if (name.namespace === null || name.namespace === team.slug) return name
  throw new AppError(
    'invalid_argument',
    `Invalid name: '${name.namespace}' is not the namespace of your team; use '${team.slug}' or none`,
  )
}

const notFound = (templateID: string) => new AppError('not_found', `Template ${templateID} not found`)
