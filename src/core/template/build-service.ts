/**
 * The life of a build: waiting, building, and then ready or error. `reconcile` ends builds that no process carries
 * out any more, so that no build stays unfinished for ever.
 */

import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { deadlineSignal } from '../../lib/deadline.ts'
import { newTemplateID, newUUID } from '../../lib/ids.ts'
import { insertOnce } from '../../lib/insert-once.ts'
import type { Log } from '../../lib/log.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { LogEntry } from '../ports/logs.ts'
import type { Team } from '../team/team.ts'
import type { BuildLog } from './build-log.ts'
import { type Builder, BuildFailure, type BuildJob } from './builder.ts'
import type { TemplateCatalog } from './catalog.ts'
import { defaultTag, type TemplateReference } from './reference.ts'
import type { StartRequest } from './start-request.ts'
import type { BuildStatus, Template, TemplateBuild, TemplateName } from './template.ts'
import type { TemplateStore } from './template-store.ts'

const maxBuildsAtOnce = 20
const buildWithinMs = 3_600_000
/** Time after which a build that its client requested and never started is ended. */
const waitAtMostMs = 40 * 60_000
export const superseded = 'The build was canceled because it was superseded by a newer one.'
/** Number of log lines of a failed step that are shown with the reason. */
const linesWithReason = 20

export type BuildSizes = { cpuCount: number; memoryMB: number; diskMB: number; gpuCount?: number }

type BuildServiceParts = {
  templates: TemplateStore
  catalog: TemplateCatalog
  builder: Builder
  buildLog: BuildLog
  /** Rejects while this server has too little disk space or memory for another build of the team. */
  requireSpace: (team: Team) => Promise<void>
  /** Called with each build that has become ready. */
  onReady: (build: TemplateBuild) => Promise<void>
  clock: Clock
  envdVersion: string
  log: Log
}

export type NewBuild = { template: Template; build: TemplateBuild; names: TemplateName[]; tags: string[] }

/** The template of a build, by name or by id, or a new template without a name. */
export type BuildTarget = Pick<TemplateReference, 'alias'> | { templateID: string } | { unnamed: true }

export type BuildProgress = {
  build: TemplateBuild
  entries: LogEntry[]
  /** The last lines of the step that failed. */
  lastEntries: LogEntry[]
}

export class BuildService {
  readonly #parts: BuildServiceParts
  readonly #running = new Map<string, { abort: AbortController; done: Promise<void> }>()

  constructor(parts: BuildServiceParts) {
    this.#parts = parts
  }

  /**
   * Inserts a new build of the template with this name or id, and creates the template if the name is new. A
   * `startRequest` is stored with the build, so that `start` needs none.
   */
  async request(
    team: Team,
    target: BuildTarget,
    tags: string[],
    sizes: BuildSizes,
    startRequest: StartRequest | null = null,
  ): Promise<NewBuild> {
    const { templates, clock, envdVersion, requireSpace } = this.#parts
    await requireSpace(team)
    const now = clock.now()
    const { template, isNew } = await this.#templateFor(team, target, now)
    const build: TemplateBuild = {
      buildID: newUUID(),
      templateID: template.templateID,
      status: 'waiting',
      ...sizes,
      envdVersion,
      rootFolder: null,
      layers: null,
      snapshot: null,
      envVars: {},
      startCmd: null,
      readyCmd: null,
      defaultUser: 'user',
      defaultWorkdir: '/home/user',
      serviceContext: null,
      reason: null,
      startRequest,
      createdAt: now,
      updatedAt: now,
      finishedAt: null,
    }
    const names = 'alias' in target ? [{ namespace: team.slug, alias: target.alias }] : []
    const fresh = isNew ? { template, names } : undefined
    const limit = { teamID: team.teamID, statuses: ['waiting', 'building'], max: maxBuildsAtOnce } as const
    const isWithin = await insertOnce(clock, {
      insert: () => templates.insertBuildWithin(limit, build, tags, fresh),
      isThere: async () => (await templates.findBuild(build.buildID)) !== undefined,
    }).catch((error) => {
      // Another request has created a template of this name meanwhile: this build belongs to that template.
      if (isNew && isAppError(error, 'already_exists')) return undefined
      throw error
    })
    if (isWithin === undefined) return this.request(team, target, tags, sizes, startRequest)
    if (!isWithin) throw tooManyBuilds()
    const reason = { message: superseded, step: null }
    await retryPassing(clock, () => templates.supersede(build, tags, reason, now))
    return { template, build, names: await templates.namesOf(template.templateID), tags }
  }

  /** Resolves once the build runs. Without `given`, the build uses the start request that was stored with it. */
  async start(
    team: Team,
    templateID: string,
    buildID: string,
    given: StartRequest | null = null,
  ): Promise<void> {
    const { clock, requireSpace } = this.#parts
    const build = await this.#find(team, templateID, buildID)
    if (build.status !== 'waiting') throw notWaiting()
    const request = given ?? build.startRequest
    if (!request) throw madeOfNothing()
    await requireSpace(team)
    const job = await this.#jobOf(team, build, request)
    if (this.#running.has(buildID)) throw notWaiting()
    const transitioned = this.#transition(buildID, 'waiting', 'building', {
      updatedAt: clock.now(),
      startRequest: null,
    })
    const abort = new AbortController()
    const done = transitioned
      .then(
        (building) => building && this.#run({ ...job, build: building }, abort.signal),
        () => {},
      )
      .catch((error) =>
        this.#parts.log.error({ buildID, err: error }, 'A build ended with a fault of its own.'),
      )
      .finally(() => this.#running.delete(buildID))
    // Registered before the row changes: `reconcile` must not see the build as one that no process carries out.
    this.#running.set(buildID, { abort, done })
    if (!(await transitioned)) throw notWaiting()
    for (const older of await this.#parts.templates.listSuperseded(buildID)) {
      // Nobody waits for the end of the older build: the newer one does not need its result.
      this.#running.get(older)?.abort.abort(new AppError('conflict', superseded))
    }
  }

  async status(team: Team, templateID: string, buildID: string): Promise<BuildProgress> {
    const build = await this.#find(team, templateID, buildID)
    const all = build.status === 'waiting' ? [] : await this.#parts.buildLog.read(buildID)
    const step = build.reason?.step
    const lastEntries = step ? all.filter(({ fields }) => fields.step === step).slice(-linesWithReason) : []
    return { build, entries: all, lastEntries }
  }

  /** Ends builds that were requested and never started, and builds of this node that this process does not carry out. */
  async reconcile(): Promise<void> {
    const { templates, clock } = this.#parts
    const now = clock.now()
    const building = await templates.listBuildsIn(['building'], Number.MAX_SAFE_INTEGER)
    const lost = building.filter(({ buildID }) => !this.#running.has(buildID))
    const abandoned = await templates.listBuildsIn(['waiting'], now - waitAtMostMs)
    for (const { buildID, status } of [...lost, ...abandoned]) {
      const message =
        status === 'building'
          ? 'Warren was restarted, or could not reach its database, while this build was under way; start it again.'
          : 'The build was requested but never started.'
      const changes = { reason: { message, step: null }, updatedAt: now, finishedAt: now }
      await this.#transition(buildID, status, 'error', changes)
    }
    await this.#abortDeleted()
  }

  /** Aborts builds whose template was deleted through another node. */
  async #abortDeleted(): Promise<void> {
    for (const [buildID, { abort }] of [...this.#running])
      if (!(await this.#parts.templates.findBuild(buildID))) abort.abort(templateDeleted())
  }

  /** Cancels every build of the team that waits or that this process carries out. */
  async cancelAllOf(team: Team): Promise<{ cancelledCount: number; failedCount: number }> {
    const { templates, log } = this.#parts
    const counts = { cancelledCount: 0, failedCount: 0 }
    const unfinished = await templates.listBuildsIn(['waiting', 'building'], Number.MAX_SAFE_INTEGER)
    for (const build of unfinished) {
      if ((await templates.findByID(build.templateID))?.teamID !== team.teamID) continue
      try {
        await this.#cancelUnfinished(build.buildID, 'The operator cancelled this build.')
        counts.cancelledCount++
      } catch (error) {
        log.error({ buildID: build.buildID, err: error }, 'a build could not be cancelled')
        counts.failedCount++
      }
    }
    return counts
  }

  /** A waiting build can be started at any moment, so only the move of its row shows that nobody has started it. */
  async #cancelUnfinished(buildID: string, message: string): Promise<void> {
    const now = this.#parts.clock.now()
    const changes = { reason: { message, step: null }, updatedAt: now, finishedAt: now }
    if (!(await this.#transition(buildID, 'waiting', 'error', changes))) await this.cancel(buildID, message)
  }

  async cancel(buildID: string, message: string): Promise<void> {
    const running = this.#running.get(buildID)
    running?.abort.abort(new AppError('conflict', message))
    await running?.done
  }

  /** Cancels the builds that this process carries out; their reason tells the client to start them again. */
  async close(): Promise<void> {
    for (const { abort } of this.#running.values()) {
      abort.abort(
        new AppError('conflict', 'Warren was stopped while this build was under way; start it again.'),
      )
    }
    await Promise.all([...this.#running.values()].map(({ done }) => done))
  }

  async #run(job: BuildJob, signal: AbortSignal): Promise<void> {
    const { builder, buildLog, onReady, clock } = this.#parts
    const { buildID, templateID } = job.build
    const startedAt = clock.now()
    const say = (message: string) => buildLog.add(buildID, { level: 'info', message, step: null })
    const deadline = deadlineSignal(clock, buildWithinMs, tookTooLong)
    let ready: TemplateBuild | undefined
    say(`Building template ${templateID}/${buildID}`)
    try {
      await builder.run(
        job,
        (line) => buildLog.add(buildID, line),
        AbortSignal.any([signal, deadline.signal]),
        async (result) => {
          const now = clock.now()
          say(`Build finished, took ${((now - startedAt) / 1000).toFixed(1)}s`)
          const changes = { ...result, updatedAt: now, finishedAt: now }
          ready = await this.#transition(buildID, 'building', 'ready', changes)
        },
      )
    } catch (error) {
      const aborted = [signal, deadline.signal].find((one) => one.aborted)
      ready = await this.#fail(buildID, aborted ? aborted.reason : error)
    } finally {
      deadline.cancel()
      await buildLog.end(buildID)
    }
    if (ready) await onReady(ready)
  }

  /** Returns the build if it is ready after all: then only the answer of its last transition was lost. */
  async #fail(buildID: string, cause: unknown): Promise<TemplateBuild | undefined> {
    const { templates, buildLog, clock, log } = this.#parts
    const found = await retryPassing(clock, () => templates.findBuild(buildID)).catch(() => undefined)
    if (found?.status === 'ready') return found
    const reason = reasonOf(cause)
    if (!isAppError(cause)) log.error({ buildID, err: cause }, 'a build failed')
    buildLog.add(buildID, { level: 'error', message: `Build failed: ${reason.message}`, step: reason.step })
    const now = clock.now()
    const changes = { reason, updatedAt: now, finishedAt: now }
    await this.#transition(buildID, 'building', 'error', changes).catch((error) => {
      log.error(
        { buildID, err: error },
        'The end of a build could not be written; the next reconcile ends it.',
      )
    })
    return undefined
  }

  /** Recognizes a move whose answer was lost by its status and time. Undefined: another move came first. */
  #transition(
    buildID: string,
    from: BuildStatus,
    to: BuildStatus,
    changes: Partial<TemplateBuild> & { updatedAt: number },
  ): Promise<TemplateBuild | undefined> {
    const { templates, clock } = this.#parts
    return retryPassing(clock, async (attempt) => {
      const transitioned = await templates.transitionBuild(buildID, [from], to, changes)
      if (transitioned || attempt === 0) return transitioned
      const build = await this.#findTransitioned(buildID, to)
      return build?.status === to && build.updatedAt === changes.updatedAt ? build : undefined
    })
  }

  /** Any node can start a waiting build, so a build in progress counts only if it belongs to this node. */
  async #findTransitioned(buildID: string, to: BuildStatus): Promise<TemplateBuild | undefined> {
    const { templates } = this.#parts
    if (to !== 'building') return templates.findBuild(buildID)
    const own = await templates.listBuildsIn(['building'], Number.MAX_SAFE_INTEGER)
    return own.find((build) => build.buildID === buildID)
  }

  async #jobOf(team: Team, build: TemplateBuild, request: StartRequest): Promise<BuildJob> {
    const { from, ...rest } = request
    const source =
      'image' in from ? from : { build: (await this.#parts.catalog.resolve(team, from.template)).build }
    return { ...rest, build, teamID: team.teamID, source }
  }

  async #find(team: Team, templateID: string, buildID: string): Promise<TemplateBuild> {
    await this.#own(team, templateID)
    const build = await this.#parts.templates.findBuild(buildID)
    if (build?.templateID === templateID) return build
    throw new AppError('invalid_argument', `Build '${buildID}' not found`)
  }

  async #own(team: Team, templateID: string): Promise<Template> {
    const template = await this.#parts.templates.findByID(templateID)
    if (!template) throw new AppError('not_found', `Template ${templateID} not found`)
    if (template.teamID === team.teamID) return template
    throw new AppError('permission_denied', `You don't have access to template '${templateID}'`)
  }

  async #templateFor(
    team: Team,
    target: BuildTarget,
    now: number,
  ): Promise<{ template: Template; isNew: boolean }> {
    if ('templateID' in target) return { template: await this.#own(team, target.templateID), isNew: false }
    const known = 'alias' in target && (await this.#parts.templates.findByAlias(team.slug, target.alias))
    if (known) return { template: known, isNew: false }
    const template: Template = {
      templateID: newTemplateID(),
      teamID: team.teamID,
      public: false,
      isSnapshot: false,
      createdAt: now,
      updatedAt: now,
      lastSpawnedAt: null,
      spawnCount: 0,
    }
    return { template, isNew: true }
  }
}

function reasonOf(error: unknown): { message: string; step: string | null } {
  if (error instanceof BuildFailure) return { message: error.message, step: error.step }
  if (isAppError(error)) return { message: error.message, step: null }
  return { message: `Warren failed at this build: ${errorText(error)}`, step: null }
}

const notWaiting = () => new AppError('invalid_argument', 'build is not in waiting state')

const templateDeleted = () => new AppError('conflict', 'The template was deleted.')

const madeOfNothing = () =>
  new AppError(
    'invalid_argument',
    'The build was requested without a Dockerfile, so it has no steps; start it with steps',
  )

const tookTooLong = () =>
  new AppError('deadline_exceeded', 'The build took longer than an hour; use fewer or faster steps')

const tooManyBuilds = () =>
  new AppError(
    'limit_reached',
    `The team has ${maxBuildsAtOnce} builds waiting or in progress, which is the maximum; wait until one has ended`,
    { retry: { should: false } },
  )

/** Returns the tags of a request: the listed ones and the one in the name, or the default tag if there are none. */
export function tagsOf(name: TemplateReference, listed: readonly string[]): string[] {
  const tags = new Set([...(name.tag === defaultTag ? [] : [name.tag]), ...listed])
  return tags.size === 0 ? [defaultTag] : [...tags]
}
