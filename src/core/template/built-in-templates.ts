/**
 * Templates that Warren can make by itself, because clients ask for them by name. Each is made on the
 * operator's command or at its first use, and is then as public as the base template.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { Team } from '../team/team.ts'
import type { BuildProgress, BuildService, BuildSizes } from './build-service.ts'
import type { BuildFiles } from './builder.ts'
import type { TemplateCatalog } from './catalog.ts'
import { defaultTag } from './reference.ts'
import type { TemplateService } from './service.ts'
import type { StartRequest } from './start-request.ts'
import type { TemplateBuild } from './template.ts'

/** How to make a template; `full` includes all optional contents. */
export type BuiltInRecipe = {
  /** The name that clients use. */
  alias: string
  /** The name that the operator uses. */
  name: string
  /** Says in one sentence what sandboxes of the template can do. */
  about: string
  sizes: BuildSizes
  /** Approximate build time. */
  seconds: number
  /** What to know before it is built, such as its size. */
  note?: string
  request(options: { full: boolean }): Promise<StartRequest & { files?: { hash: string; archive: Buffer } }>
}

type BuiltInTemplatesParts = {
  recipes: readonly BuiltInRecipe[]
  catalog: TemplateCatalog
  templates: TemplateService
  builds: BuildService
  files: BuildFiles
  /** The team that owns the built-in templates. */
  owner: () => Promise<Team>
  clock: Clock
}

/** Creates do not repeat a build that a step has failed for as long: it would most likely fail again. */
const retryFailedAfterMs = 10 * 60_000

type BuiltInBuild = Pick<TemplateBuild, 'templateID' | 'buildID'>

/** A recipe with its state: whether sandboxes can start from it, and its newest build, finished or not. */
export type ListedRecipe = { recipe: BuiltInRecipe; isReady: boolean; newest: TemplateBuild | undefined }

type StartedBuild = BuiltInBuild & { isFull: boolean }

export class BuiltInTemplates {
  readonly #parts: BuiltInTemplatesParts
  /** Lets a later caller see the build that an earlier one started. */
  readonly #starting = new KeyedLock()
  /** The last build of each template that this node started. */
  readonly #last = new Map<string, StartedBuild>()

  constructor(parts: BuiltInTemplatesParts) {
    this.#parts = parts
  }

  /** Starts the build. Returns the build under way instead if that one has at least the same contents. */
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
        `The template '${recipe.alias}' is being built with its usual contents; request the full contents when it is ready`,
      )
    })
  }

  /**
   * What any team may do: start the build that a first use would start. Rejects if the template is built
   * already, because only the operator replaces a template of all teams.
   */
  async makeMissing(name: string): Promise<BuiltInBuild> {
    const { recipe, isReady } = await this.#stateOf(this.#recipe(name))
    if (!isReady) return this.make(name, { full: false })
    throw new AppError(
      'permission_denied',
      `The template '${recipe.alias}' is built already. Only the operator can build it again, with \`warren template add ${name}\`.`,
    )
  }

  async list(): Promise<ListedRecipe[]> {
    return Promise.all(this.#parts.recipes.map((recipe) => this.#stateOf(recipe)))
  }

  noteOf(name: string): string | undefined {
    return this.#recipe(name).note
  }

  /** The progress of the last build. */
  async progress(name: string): Promise<BuildProgress> {
    const recipe = this.#recipe(name)
    const last = await this.#lastOf(recipe)
    if (!last) throw new AppError('not_found', `The template '${recipe.alias}' is not being built`)
    return this.#statusOf(last)
  }

  /** The newest build of the template on any node, finished or not. */
  async newestBuild(name: string): Promise<TemplateBuild | undefined> {
    return (await this.#stateOf(this.#recipe(name))).newest
  }

  /**
   * The error for a template that does not exist yet, after starting its build. Undefined if Warren has no
   * such template.
   */
  async whenMissing(alias: string): Promise<AppError | undefined> {
    const recipe = this.#parts.recipes.find((one) => one.alias === alias)
    if (!recipe) return undefined
    const last = await this.#lastOf(recipe)
    const build = last && (await this.#statusOf(last)).build
    const reason = build?.reason?.message
    const failed = build && this.#failedLately(recipe, build)
    if (failed) return failed
    await this.make(recipe.name, { full: false })
    const minutes = Math.ceil(recipe.seconds / 60)
    const before = reason === undefined ? '' : ` The previous attempt failed: ${reason}`
    return new AppError(
      'unavailable',
      `The template '${alias}' is being built, because this is its first use; that takes about ${minutes} minutes. ` +
        `Try again then, or watch it with \`warren template add ${recipe.name}\`.${before}`,
      { retry: { should: true, afterSeconds: recipe.seconds } },
    )
  }

  /** A build that was cancelled, or that a restart of Warren ended, has no step that failed. */
  #failedLately({ alias, name }: BuiltInRecipe, build: TemplateBuild): AppError | undefined {
    const { status, reason, finishedAt } = build
    if (status !== 'error' || !reason?.step || finishedAt === null) return undefined
    const seconds = Math.ceil((finishedAt + retryFailedAfterMs - this.#parts.clock.now()) / 1000)
    if (seconds <= 0) return undefined
    const next = seconds < 120 ? `${seconds} s` : `${Math.ceil(seconds / 60)} minutes`
    return new AppError(
      'unavailable',
      `The template '${alias}' could not be built: ${reason.message} A create builds it again in ${next} at the earliest; ` +
        `\`warren template add ${name}\` builds it at once.`,
      { retry: { should: false, afterSeconds: seconds } },
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

  async #stateOf(recipe: BuiltInRecipe): Promise<ListedRecipe> {
    const { catalog, templates } = this.#parts
    const owner = await this.#parts.owner()
    const template = await catalog.findOfAny(owner, recipe.alias)
    if (template?.teamID !== owner.teamID) return { recipe, isReady: false, newest: undefined }
    const { summary, builds } = await templates.read(owner, template.templateID, { limit: 1 })
    return { recipe, isReady: summary.build !== null, newest: builds[0] }
  }

  #statusOf = async ({ templateID, buildID }: BuiltInBuild): Promise<BuildProgress> =>
    this.#parts.builds.status(await this.#parts.owner(), templateID, buildID)

  /** A waiting build does not count: somebody may have requested it and never start it. */
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
