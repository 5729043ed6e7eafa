/**
 * Snapshot and fork: takes a snapshot of a running sandbox and makes it a template, or starts copies from it
 * at once.
 */
import { type AppError, isAppError } from '../../../lib/app-error.ts'
import { newSandboxID, newTemplateID, newUUID } from '../../../lib/ids.ts'
import { insertOnce, isNotDone } from '../../../lib/insert-once.ts'
import type { SnapshotOptions } from '../../ports/driver.ts'
import type { Team } from '../../team/team.ts'
import { defaultTag, type TemplateReference } from '../../template/reference.ts'
import type { BuildSnapshot, TemplateBuild } from '../../template/template.ts'
import type { FreshTemplate, TemplateStore } from '../../template/template-store.ts'
import type { SandboxLauncher, SnapshotRef } from '../launch/launcher.ts'
import * as errors from '../row/errors.ts'
import { copiedEntry } from '../row/life-entries.ts'
import { checkCreateTimeout } from '../row/lifetime.ts'
import { isVisible, type NewSandbox, type Sandbox } from '../row/sandbox.ts'
import type { SandboxInTurn } from '../row/sandbox-turns.ts'
import { newForkSnapshotName } from '../snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'
import type { VerbParts } from './verb-parts.ts'

type CopierParts = VerbParts & {
  templates: TemplateStore
  snapshots: SnapshotStore
  launcher: Pick<SandboxLauncher, 'findOtherNetworks'>
  /** Creates a sandbox within the limits of its team. */
  start: (team: Team, row: NewSandbox, build: TemplateBuild, snapshot: SnapshotRef) => Promise<Sandbox>
}

export type SnapshotRequest = {
  /** A name within the team's namespace. Without one, the snapshot is known by its template ID. */
  name?: TemplateReference
  memory: boolean
}

export type SnapshotTemplate = { snapshotID: string; names: string[] }
export type ForkRequest = { timeoutMs: number; count: number; ownerPersonID?: string | undefined }
export type ForkOutcome = { sandbox: Sandbox } | { error: unknown }

export class SandboxCopier {
  readonly #parts: CopierParts

  constructor(parts: CopierParts) {
    this.#parts = parts
  }

  async fork(team: Team, sandboxID: string, request: ForkRequest): Promise<ForkOutcome[]> {
    const { timeoutMs, count } = request
    const { snapshots, requireBudget } = this.#parts
    checkCreateTimeout(timeoutMs, team.limits)
    requireBudget(team.teamID)
    if (count >= team.limits.maxSandboxes) throw errors.tooManyForks(count, team.limits)
    const name = newForkSnapshotName()
    return snapshots.protecting(name, async () => {
      const whenPaused = errors.pausedNotForked(sandboxID)
      const options = { name, memory: true, lasting: false, startsAfter: count }
      const { parent, memory } = await this.#takeSnapshot(team, sandboxID, options, whenPaused)
      try {
        return await this.#startForks(team, parent, { name, memory, keepSnapshot: true, sandboxID }, request)
      } finally {
        await this.#removeSnapshot(name)
      }
    })
  }

  async snapshot(
    team: Team,
    sandboxID: string,
    { name, memory }: SnapshotRequest,
  ): Promise<SnapshotTemplate> {
    const { snapshots, clock, appendLog, onSnapshotTaken } = this.#parts
    const buildID = newUUID()
    return snapshots.protecting(buildID, async () => {
      const options = { name: buildID, memory, lasting: true }
      const snapshot = await this.#takeSnapshot(team, sandboxID, options, errors.sandboxNotFound(sandboxID))
      const state = { name: buildID, memory: snapshot.memory, sandboxID }
      const made = await this.#insertBuild(team, snapshot.parent, state, name)
      appendLog(sandboxID, copiedEntry(clock.now(), 'snapshot', made.snapshotID))
      onSnapshotTaken()
      return made
    })
  }

  /** After a copy that was cut off, the sandbox itself continues. Undefined if a kill has it. */
  repair(row: SandboxInTurn): Promise<SandboxInTurn | undefined> {
    return this.#goOn(row, {})
  }

  async #goOn(row: SandboxInTurn, changes: { isCheckpointed?: true }): Promise<SandboxInTurn | undefined> {
    const { turns, onRunning } = this.#parts
    const running = await turns.transition(row, 'running', changes)
    if (running) onRunning(running)
    return running
  }

  /** The sandbox is frozen while the snapshot is taken, and continues whether that succeeds or not. */
  async #takeSnapshot(
    team: Team,
    sandboxID: string,
    {
      name,
      memory,
      ...snapshotOptions
    }: { name: string } & Pick<SnapshotOptions, 'memory' | 'lasting' | 'startsAfter'>,
    whenPaused: AppError,
  ): Promise<{ parent: Sandbox; memory: boolean }> {
    const { sandboxes, snapshots, launcher, turns, diskGuard, frozen, arrivals, log } = this.#parts
    // Rejects at once, before waiting for another change of the sandbox to end.
    this.#requireRunning(team, sandboxID, await sandboxes.find(sandboxID), whenPaused)
    return turns.acquire(sandboxID, async ({ row, signal }) => {
      const running = this.#requireRunning(team, sandboxID, row, whenPaused)
      const why = frozen.whyFrozen(running)
      if (why !== undefined) throw errors.sandboxIsFrozen(why)
      await diskGuard.requireForSnapshot(running, { memory: memory && snapshots.canTakeMemory, disk: true })
      await arrivals.require(running, signal)
      const parent = await turns.transition(running, 'snapshotting')
      if (!parent) throw await turns.overtaken(running, 'copied')
      const changes: { isCheckpointed?: true } = {}
      try {
        // Sandboxes of a template have their own volumes or none, so restored memory would miss the parent's
        // mounts.
        const keepsMemory =
          memory && snapshots.canTakeMemory && !(snapshotOptions.lasting && parent.options.volumeMounts)
        const networks = keepsMemory ? await launcher.findOtherNetworks(parent, signal) : 'none'
        if (networks !== 'none') throw errors.memoryDiscarded(sandboxID, networks)
        const options = { ...snapshotOptions, memory: keepsMemory, afterwards: 'go-on' } as const
        const snapshot = await snapshots.takeSnapshot(parent.handle!, name, options, signal)
        changes.isCheckpointed = true
        return { parent, memory: snapshot.memory }
      } catch (error) {
        throw signal.aborted ? errors.killedWhile(sandboxID, 'copied') : error
      } finally {
        await this.#goOn(parent, changes).catch((error) => {
          log.error(
            { sandboxID, err: error },
            'The row of a copied sandbox could not be moved back; trying again later.',
          )
        })
      }
    })
  }

  #requireRunning<Row extends Sandbox>(
    { teamID }: Team,
    sandboxID: string,
    row: Row | undefined,
    whenPaused: AppError,
  ): Row {
    if (!row) throw new errors.SandboxNotHere(sandboxID)
    if (row.teamID !== teamID || !isVisible(row.state)) throw errors.sandboxNotFound(sandboxID)
    if (row.state === 'paused') throw whenPaused
    if (row.state !== 'running') throw errors.sandboxIsBusy(sandboxID, row.state)
    return row
  }

  async #startForks(
    team: Team,
    parent: Sandbox,
    snapshot: SnapshotRef,
    { timeoutMs, count, ownerPersonID }: ForkRequest,
  ): Promise<ForkOutcome[]> {
    const { templates, clock, appendLog, start } = this.#parts
    const build = await templates.findBuild(parent.buildID)
    if (!build) throw errors.buildIsGone(parent.buildID)
    const outcomes = await Promise.all(
      Array.from({ length: count }, () =>
        start(team, forkOf(parent, { timeoutMs, ownerPersonID }, clock.now()), build, snapshot).then(
          (sandbox): ForkOutcome => ({ sandbox }),
          (error): ForkOutcome => ({ error }),
        ),
      ),
    )
    const made = outcomes.flatMap((one) => ('sandbox' in one ? [one.sandbox.sandboxID] : []))
    const detail = made.join(', ') || 'none could be started'
    appendLog(parent.sandboxID, copiedEntry(clock.now(), 'fork', detail))
    return outcomes
  }

  /** Makes the snapshot a build of the team's template with this name, or of a new template. */
  async #insertBuild(
    team: Team,
    parent: Sandbox,
    snapshot: BuildSnapshot,
    name: TemplateReference | undefined,
  ): Promise<SnapshotTemplate> {
    const { templates, clock } = this.#parts
    const buildID = snapshot.name
    const now = clock.now()
    let mayAppear = false
    try {
      const before = await templates.findBuild(parent.buildID)
      if (!before) throw errors.buildIsGone(parent.buildID)
      const tag = name?.tag ?? defaultTag
      const templateID = await this.#insertInto(team, name, now, (templateID) => {
        mayAppear = true
        return snapshotBuild(buildID, templateID, before, parent, snapshot, now)
      })
      const full = name && `${team.slug}/${name.alias}`
      return { snapshotID: `${full ?? templateID}:${tag}`, names: full ? [full] : [] }
    } catch (error) {
      // A build that may still appear needs its snapshot. The reconciler puts the snapshot into quarantine until then.
      if (!mayAppear || isNotDone(error)) await this.#removeSnapshot(buildID)
      throw error
    }
  }

  async #removeSnapshot(snapshotName: string): Promise<void> {
    const { snapshots, log } = this.#parts
    await snapshots.remove(snapshotName).catch((error) => {
      log.warn(
        { snapshotName, err: error },
        'The snapshot of a copy could not be removed; the reconciler removes it.',
      )
    })
  }

  /** Inserts the build into the team's template with this name, or together with a new template. */
  async #insertInto(
    team: Team,
    name: TemplateReference | undefined,
    now: number,
    buildOf: (templateID: string) => TemplateBuild,
  ): Promise<string> {
    const { templates } = this.#parts
    const tags = [name?.tag ?? defaultTag]
    const known = name && (await templates.findByAlias(team.slug, name.alias))
    if (known) {
      await this.#insertOnce(buildOf(known.templateID), tags)
      return known.templateID
    }
    const templateID = newTemplateID()
    const template = { templateID, teamID: team.teamID, public: false, isSnapshot: true }
    const rest = { createdAt: now, updatedAt: now, lastSpawnedAt: null, spawnCount: 0 }
    const names = name ? [{ namespace: team.slug, alias: name.alias }] : []
    try {
      await this.#insertOnce(buildOf(templateID), tags, { template: { ...template, ...rest }, names })
      return templateID
    } catch (error) {
      // Another snapshot took the name meanwhile: the build goes into that one's template.
      if (name && isAppError(error, 'already_exists')) return this.#insertInto(team, name, now, buildOf)
      throw error
    }
  }

  async #insertOnce(build: TemplateBuild, tags: readonly string[], fresh?: FreshTemplate): Promise<void> {
    const { templates, clock } = this.#parts
    await insertOnce(clock, {
      insert: () => templates.insertBuild(build, tags, fresh).then(() => true),
      isThere: async () => (await templates.findBuild(build.buildID)) !== undefined,
    })
  }
}

function forkOf(
  parent: Sandbox,
  { timeoutMs, ownerPersonID }: Omit<ForkRequest, 'count'>,
  now: number,
): NewSandbox {
  const {
    state: _state,
    handle: _handle,
    snapshot: _snapshot,
    endedAt: _endedAt,
    endReason: _why,
    ownerPersonID: _owner,
    ...rest
  } = parent
  const identity = { sandboxID: newSandboxID(), runID: newUUID() }
  const owner = ownerPersonID === undefined ? {} : { ownerPersonID }
  return { ...rest, ...identity, ...owner, timeoutMs, createdAt: now, startedAt: now, endAt: now + timeoutMs }
}

function snapshotBuild(
  buildID: string,
  templateID: string,
  before: TemplateBuild,
  parent: Sandbox,
  snapshot: BuildSnapshot,
  now: number,
): TemplateBuild {
  return {
    ...before,
    buildID,
    templateID,
    status: 'ready',
    snapshot,
    cpuCount: parent.cpuCount,
    memoryMB: parent.memoryMB,
    ...(parent.gpuCount !== undefined && { gpuCount: parent.gpuCount }),
    diskMB: parent.diskMB,
    sandboxEnvVars: parent.envVars,
    createdAt: now,
    updatedAt: now,
    finishedAt: now,
  }
}
