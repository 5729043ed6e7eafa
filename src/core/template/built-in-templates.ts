/**
 * Templates that Warren knows how to make by itself, because clients ask for them by name. Each is made when the
 * operator says so or when it is first used, and is then as public as the base template.
 */
import { AppError } from '../../lib/app-error.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { Team } from '../team/team.ts'
import type { BuildProgress, BuildService, BuildSizes } from './build-service.ts'
import type { BuildFiles } from './builder.ts'
import type { TemplateCatalog } from './catalog.ts'
import { defaultTag } from './reference.ts'
import type { TemplateService } from './service.ts'
import type { StartRequest } from './start-request.ts'
import type { TemplateBuild } from './template.ts'

/** How a template is made; `full` asks for everything that it can hold. */
export type BuiltInRecipe = {
  /** The name that clients ask for. */
  alias: string
  /** The name that the operator uses. */
  name: string
  sizes: BuildSizes
  /** About how long it takes to make. */
  seconds: number
  request(options: { full: boolean }): Promise<StartRequest & { files?: { hash: string; archive: Buffer } }>
}

export type BuiltInTemplatesParts = {
  recipes: readonly BuiltInRecipe[]
  catalog: TemplateCatalog
  templates: TemplateService
  builds: BuildService
  files: BuildFiles
  /** The team that owns them. */
  owner: () => Promise<Team>
}

export type BuiltInBuild = Pick<TemplateBuild, 'templateID' | 'buildID'>

type StartedBuild = BuiltInBuild & { isFull: boolean }

export class BuiltInTemplates {
  readonly #parts: BuiltInTemplatesParts
  /** Who comes later sees what the one before started. */
  readonly #starting = new KeyedLock()
  /** What this node started last. */
  readonly #last = new Map<string, StartedBuild>()

  constructor(parts: BuiltInTemplatesParts) {
    this.#parts = parts
  }

  /** Starts to make it; while one with as much in it is being made already, that one is meant. */
  async make(name: string, { full }: { full: boolean }): Promise<BuiltInBuild> {
    const recipe = this.#recipe(name)
    return this.#starting.run(recipe.alias, async () => {
      const last = await this.#lastOf(recipe)
      const status = last && (await this.#statusOf(last)).build.status
      if (!last || (status !== 'building' && status !== 'waiting')) return this.#start(recipe, full)
      const { isFull, ...underWay } = last
      if (isFull || !full) return underWay
      throw new AppError(
        'conflict',
        `The template '${recipe.alias}' is being made with its usual contents; ask for the full ones when it is ready`,
      )
    })
  }

  /** How the one that was started last is doing. */
  async progress(name: string): Promise<BuildProgress> {
    const recipe = this.#recipe(name)
    const last = await this.#lastOf(recipe)
    if (!last) throw new AppError('not_found', `The template '${recipe.alias}' is not being made`)
    return this.#statusOf(last)
  }

  /** The newest build of it, whichever node carries it out, or did. */
  async newestBuild(name: string): Promise<TemplateBuild | undefined> {
    const { catalog, templates } = this.#parts
    const owner = await this.#parts.owner()
    const template = await catalog.findOfAny(owner, this.#recipe(name).alias)
    if (template?.teamID !== owner.teamID) return undefined
    return (await templates.read(owner, template.templateID, { limit: 1 })).builds[0]
  }

  /** What to tell who asked for a template that is not there; undefined: Warren does not know it either. */
  async whenMissing(alias: string): Promise<AppError | undefined> {
    const recipe = this.#parts.recipes.find((one) => one.alias === alias)
    if (!recipe) return undefined
    const last = await this.#lastOf(recipe)
    const reason = last && (await this.#statusOf(last)).build.reason?.message
    await this.make(recipe.name, { full: false })
    const minutes = Math.ceil(recipe.seconds / 60)
    const before = reason === undefined ? '' : ` The attempt before failed: ${reason}`
    return new AppError(
      'unavailable',
      `The template '${alias}' is being made, because this is its first use; that takes about ${minutes} minutes. ` +
        `Try again then, or watch it with \`warren template add ${recipe.name}\`.${before}`,
      { retry: { should: true, afterSeconds: recipe.seconds } },
    )
  }

  async #start(recipe: BuiltInRecipe, full: boolean): Promise<BuiltInBuild> {
    const { catalog, templates, builds, files } = this.#parts
    const owner = await this.#parts.owner()
    const { files: packed, ...request } = await recipe.request({ full })
    if (packed && !(await files.has(owner.teamID, packed.hash))) {
      await files.write(owner.teamID, packed.hash, piecesOf(packed.archive), packed.archive.length)
    }
    const name = { namespace: null, alias: recipe.alias, tag: defaultTag }
    const { template, build } = await builds.request(owner, name, [defaultTag], recipe.sizes)
    const { templateID } = template
    const found = { templateID, buildID: build.buildID }
    const everybodys = await catalog.findPublic(recipe.alias)
    await templates.setPublic(owner, templateID, true, everybodys === undefined)
    await builds.start(owner, templateID, build.buildID, request)
    this.#last.set(recipe.alias, { ...found, isFull: full })
    return found
  }

  #statusOf = async ({ templateID, buildID }: BuiltInBuild): Promise<BuildProgress> =>
    this.#parts.builds.status(await this.#parts.owner(), templateID, buildID)

  /** A build that only waits may be one that somebody requested and never starts. */
  async #lastOf({ alias, name }: BuiltInRecipe): Promise<StartedBuild | undefined> {
    const own = this.#last.get(alias)
    if (own) return own
    const newest = await this.newestBuild(name)
    if (!newest || newest.status === 'waiting') return undefined
    const { templateID, buildID } = newest
    return { templateID, buildID, isFull: false }
  }

  #recipe(name: string): BuiltInRecipe {
    const found = this.#parts.recipes.find((one) => one.name === name)
    if (found) return found
    const known = this.#parts.recipes.map((one) => one.name).join(', ')
    throw new AppError('not_found', `Warren has no template '${name}' to add. It has: ${known}.`)
  }
}

async function* piecesOf(archive: Buffer): AsyncGenerator<Uint8Array> {
  yield archive
}
