/**
 * Templates that a create asks for by an image or a size: each is built once by the usual builds, within the team's limits, and then
 * found again. A template stands for a name and a size; its tags say of which bytes each build was made.
 */
import { createHash } from 'node:crypto'
import { AppError, isAppError } from '../../lib/app-error.ts'
import { type Clock, sleep } from '../../lib/clock.ts'
import { KeyedLock } from '../../lib/keyed-lock.ts'
import type { Images } from '../ports/images.ts'
import type { Team } from '../team/team.ts'
import { type BuildService, type BuildSizes, superseded } from './build-service.ts'
import type { TemplateCatalog } from './catalog.ts'
import { defaultTag } from './reference.ts'
import type { StartRequest } from './start-request.ts'
import type { TemplateBuild } from './template.ts'
import type { TemplateStore } from './template-store.ts'

/** An image or a template, and what differs from its usual size. */
export type OnDemandRequest = {
  from: { image: string } | { template: string }
  cpuCount?: number | undefined
  memoryMB?: number | undefined
}

/** `reference` names the template once the build is ready. */
type OnDemandTemplate = { reference: string; build: TemplateBuild }

type OnDemandParts = {
  templates: Pick<TemplateStore, 'findByAlias' | 'findReadyBuild' | 'listBuilds' | 'findBuild'>
  catalog: Pick<TemplateCatalog, 'resolve'>
  builds: Pick<BuildService, 'request' | 'start'>
  images: Pick<Images, 'digestOf'>
  clock: Clock
}

type Plan = { alias: string; tag: string; what: string; sizes: BuildSizes; from: StartRequest['from'] }

/** Shorter than the minute after which clients give a request up. */
const waitAtMostMs = 50_000
const lookEveryMs = 300
/** A build that nobody has started within this time was given up. */
const startWithinMs = 60_000
/** The registry is asked for a name this often at most. */
const rememberDigestMs = 60_000
const maxDigests = 1000

export class OnDemandTemplates {
  readonly #parts: OnDemandParts
  readonly #locks = new KeyedLock()
  readonly #digests = new Map<string, { digest: string; at: number }>()

  constructor(parts: OnDemandParts) {
    this.#parts = parts
  }

  /** Returns the template that is ready or being built, and starts its build if there is none. */
  async prepare(team: Team, request: OnDemandRequest, usual: BuildSizes): Promise<OnDemandTemplate> {
    const planned = await this.#plan(team, request, usual)
    if ('build' in planned) return planned
    return this.#locks.run(`${team.teamID} ${planned.alias}`, () => this.#findOrBuild(team, planned))
  }

  /** Waits for the template, and returns its reference. */
  async require(team: Team, request: OnDemandRequest, usual: BuildSizes): Promise<string> {
    const { templates, clock } = this.#parts
    const giveUpAt = clock.now() + waitAtMostMs
    let { reference, build } = await this.prepare(team, request, usual)
    const what = 'image' in request.from ? request.from.image : request.from.template
    for (;;) {
      if (build.status === 'ready') return reference
      if (build.status === 'error') {
        // A request at another node started a later build of the same.
        if (build.reason?.message !== superseded) throw notBuilt(what, build)
        ;({ reference, build } = await this.prepare(team, request, usual))
        continue
      }
      if (clock.now() >= giveUpAt) throw stillBuilding(what)
      await sleep(clock, lookEveryMs)
      const found = await templates.findBuild(build.buildID)
      if (!found) throw new AppError('conflict', `The template of ${what} was deleted while it was built.`)
      build = found
    }
  }

  async #findOrBuild(team: Team, { alias, tag, sizes, from }: Plan): Promise<OnDemandTemplate> {
    const { templates, builds, clock } = this.#parts
    const reference = `${alias}:${tag}`
    const template = await templates.findByAlias(team.slug, alias)
    if (template) {
      const ready = await templates.findReadyBuild(template.templateID, tag)
      if (ready) return { reference, build: ready }
      const [newest] = await templates.listBuilds(template.templateID, { limit: 1 })
      const isStarting = newest?.status === 'waiting' && clock.now() - newest.createdAt < startWithinMs
      if (newest && (isStarting || newest.status === 'building')) return { reference, build: newest }
    }
    const start: StartRequest = { from, steps: [], startCmd: null, readyCmd: null, force: false }
    const { build } = await builds.request(team, { alias }, [tag, defaultTag], sizes, start)
    await builds.start(team, build.templateID, build.buildID)
    return { reference, build: { ...build, status: 'building' } }
  }

  #plan(team: Team, request: OnDemandRequest, usual: BuildSizes): Promise<Plan | OnDemandTemplate> {
    const { from } = request
    return 'image' in from
      ? this.#planImage(team, from.image, request, usual)
      : this.#planSize(team, from.template, request)
  }

  async #planImage(
    team: Team,
    image: string,
    { cpuCount, memoryMB }: OnDemandRequest,
    usual: BuildSizes,
  ): Promise<Plan | OnDemandTemplate> {
    const sizes = { ...usual, cpuCount: cpuCount ?? usual.cpuCount, memoryMB: memoryMB ?? usual.memoryMB }
    const alias = aliasOf(image, ['image', image], sizes)
    const plan = (tag: string): Plan => ({ alias, tag, what: image, sizes, from: { image } })
    try {
      return plan((await this.#digestOf(image)).replace(':', '-').slice(0, 40))
    } catch (error) {
      if (isAppError(error, 'invalid_argument')) throw error
      // While the registry does not answer, the newest build does.
      const { templates } = this.#parts
      const template = await templates.findByAlias(team.slug, alias)
      const build = template && (await templates.findReadyBuild(template.templateID, defaultTag))
      if (build) return { reference: alias, build }
      throw error
    }
  }

  async #planSize(
    team: Team,
    template: string,
    { cpuCount, memoryMB }: OnDemandRequest,
  ): Promise<Plan | OnDemandTemplate> {
    const { build } = await this.#parts.catalog.resolve(team, template)
    const { diskMB, gpuCount } = build
    const sizes = {
      cpuCount: cpuCount ?? build.cpuCount,
      memoryMB: memoryMB ?? build.memoryMB,
      diskMB,
      ...(gpuCount !== undefined && { gpuCount }),
    }
    if (sizes.cpuCount === build.cpuCount && sizes.memoryMB === build.memoryMB)
      return { reference: template, build }
    const alias = aliasOf(template, ['template', build.templateID], sizes)
    return { alias, tag: `build-${build.buildID}`, what: template, sizes, from: { template } }
  }

  async #digestOf(image: string): Promise<string> {
    const { images, clock } = this.#parts
    const known = this.#digests.get(image)
    if (known && clock.now() - known.at < rememberDigestMs) return known.digest
    const digest = await images.digestOf(image)
    this.#digests.delete(image)
    if (this.#digests.size >= maxDigests) this.#digests.delete(this.#digests.keys().next().value!)
    this.#digests.set(image, { digest, at: clock.now() })
    return digest
  }
}

/** Readable in lists, and different for each source and size. */
function aliasOf(what: string, source: readonly string[], { cpuCount, memoryMB }: BuildSizes): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([...source, cpuCount, memoryMB]))
    .digest('hex')
  const shown = what
    .replace(/^.*\//, '')
    .replace(/@.*$/, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 48)
  return `${shown}-${cpuCount}cpu-${memoryMB}mb-${hash.slice(0, 10)}`
}

function notBuilt(what: string, { reason }: TemplateBuild): AppError {
  const why = (reason?.message ?? 'the server gives no reason').replace(/\.$/, '')
  return new AppError('unprocessable', `No template could be built of ${what}: ${why}.`)
}

function stillBuilding(what: string): AppError {
  const how = 'Try again in a moment: the build goes on.'
  return new AppError('unavailable', `A template is being built of ${what}. ${how}`, {
    retry: { should: true, afterSeconds: 5 },
  })
}
