/** Snapshot and fork: what a running sandbox is at one moment, kept as a template or started again right away. */
import { type AppError, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newSandboxID, newTemplateID, newUUID } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { LogEntry } from '../logs.ts'
import type { SandboxStore, TemplateStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import { defaultTag, type TemplateReference } from '../template/reference.ts'
import type { BuildSnapshot, TemplateBuild } from '../template/template.ts'
import * as errors from './errors.ts'
import type { SnapshotRef } from './launcher.ts'
import { copiedEntry } from './life-entries.ts'
import { checkCreateTimeout } from './lifetime.ts'
import type { OngoingWork } from './ongoing-work.ts'
import { isVisible, type NewSandbox, type Sandbox } from './sandbox.ts'
import type { SnapshotStore } from './snapshot-store.ts'

export type CopierParts = {
  sandboxes: SandboxStore
  templates: TemplateStore
  snapshots: SnapshotStore
  ongoing: OngoingWork
  clock: Clock
  appendLog: (sandboxID: string, entry: LogEntry) => void
  /** Called with each sandbox that runs again. */
  onRunning: (sandbox: Sandbox) => void
  /** Creates a sandbox within the limits of its team. */
  start: (team: Team, row: NewSandbox, build: TemplateBuild, snapshot: SnapshotRef) => Promise<Sandbox>
  log: Log
}

export type SnapshotRequest = {
  /** A name of the team's own; without one the snapshot is known by its template id. */
  name?: TemplateReference
  memory: boolean
}

export type SnapshotTemplate = { snapshotID: string; names: string[] }
export type ForkRequest = { timeoutMs: number; count: number }
export type ForkOutcome = { sandbox: Sandbox } | { error: unknown }

export class SandboxCopier {
  readonly #parts: CopierParts

  constructor(parts: CopierParts) {
    this.#parts = parts
  }

  async fork(team: Team, sandboxID: string, { timeoutMs, count }: ForkRequest): Promise<ForkOutcome[]> {
    const { snapshots, templates, clock, appendLog, start } = this.#parts
    checkCreateTimeout(timeoutMs, team.limits)
    if (count >= team.limits.maxSandboxes) throw errors.tooManyForks(count, team.limits)
    const name = `fork-${newUUID()}`
    return snapshots.holding(name, async () => {
      const onPaused = errors.pausedNotForked(sandboxID)
      const { parent, memory } = await this.#save(team, sandboxID, name, true, false, onPaused)
      try {
        const build = await templates.findBuild(parent.buildID)
        if (!build) throw errors.buildIsGone(parent.buildID)
        const from = { name, memory, keep: true, sandboxID }
        const outcomes = await Promise.all(
          Array.from({ length: count }, () =>
            start(team, forkOf(parent, timeoutMs, clock.now()), build, from).then(
              (sandbox): ForkOutcome => ({ sandbox }),
              (error): ForkOutcome => ({ error }),
            ),
          ),
        )
        const made = outcomes.flatMap((one) => ('sandbox' in one ? [one.sandbox.sandboxID] : []))
        appendLog(sandboxID, copiedEntry(clock.now(), 'fork', made.join(', ') || 'none could be started'))
        return outcomes
      } finally {
        await snapshots.remove(name)
      }
    })
  }

  async snapshot(
    team: Team,
    sandboxID: string,
    { name, memory }: SnapshotRequest,
  ): Promise<SnapshotTemplate> {
    const { snapshots, templates, clock, appendLog } = this.#parts
    const buildID = newUUID()
    return snapshots.holding(buildID, async () => {
      const onPaused = errors.sandboxNotFound(sandboxID)
      const kept = await this.#save(team, sandboxID, buildID, memory, true, onPaused)
      const state = { name: buildID, memory: kept.memory, sandboxID }
      try {
        const before = await templates.findBuild(kept.parent.buildID)
        if (!before) throw errors.buildIsGone(kept.parent.buildID)
        const now = clock.now()
        const templateID = await this.#templateFor(team, name, now)
        const tag = name?.tag ?? defaultTag
        await templates.insertBuild(snapshotBuild(buildID, templateID, before, kept.parent, state, now), [
          tag,
        ])
        const full = name && `${team.slug}/${name.alias}`
        const snapshot = { snapshotID: `${full ?? templateID}:${tag}`, names: full ? [full] : [] }
        appendLog(sandboxID, copiedEntry(now, 'snapshot', snapshot.snapshotID))
        return snapshot
      } catch (error) {
        await snapshots.remove(buildID)
        throw error
      }
    })
  }

  /** For a copy that a crash cut off: the sandbox itself goes on. */
  async repair(row: Sandbox): Promise<boolean> {
    await this.#goOn(row)
    return true
  }

  /** The sandbox stands still while it is saved, and goes on whatever comes of it. */
  #save(
    team: Team,
    sandboxID: string,
    name: string,
    memory: boolean,
    lasting: boolean,
    onPaused: AppError,
  ): Promise<{ parent: Sandbox; memory: boolean }> {
    const { snapshots, ongoing } = this.#parts
    return ongoing.run(sandboxID, async (signal) => {
      const parent = await this.#claim(team, sandboxID, onPaused)
      try {
        const options = { memory: memory && snapshots.keepMemory, afterwards: 'go-on', lasting } as const
        const state = await snapshots.take(parent.handle!, name, options, signal)
        return { parent, memory: state.memory }
      } catch (error) {
        throw signal.aborted ? errors.killedWhile(sandboxID, 'copied') : error
      } finally {
        await this.#goOn(parent)
      }
    })
  }

  async #claim(team: Team, sandboxID: string, onPaused: AppError): Promise<Sandbox> {
    const { sandboxes } = this.#parts
    const row = await sandboxes.find(sandboxID)
    if (!row || row.teamID !== team.teamID || !isVisible(row.state)) throw errors.sandboxNotFound(sandboxID)
    const at = { sandboxID, runID: row.runID, from: ['running'] as const }
    const claimed = row.state === 'running' ? await sandboxes.move(at, 'snapshotting') : undefined
    if (claimed) return claimed
    const { state } = (await sandboxes.find(sandboxID)) ?? row
    throw state === 'paused' ? onPaused : errors.sandboxIsBusy(sandboxID, state)
  }

  async #goOn({ sandboxID, runID }: Sandbox): Promise<void> {
    const { sandboxes, onRunning } = this.#parts
    const running = await sandboxes.move({ sandboxID, runID, from: ['snapshotting'] }, 'running')
    if (running) onRunning(running)
  }

  /** The team's template of that name, or a new one. */
  async #templateFor(team: Team, name: TemplateReference | undefined, now: number): Promise<string> {
    const { templates } = this.#parts
    const known = name && (await templates.findByAlias(team.slug, name.alias))
    if (known) return known.templateID
    const templateID = newTemplateID()
    const template = { templateID, teamID: team.teamID, public: false, isSnapshot: true }
    const rest = { createdAt: now, updatedAt: now, lastSpawnedAt: null, spawnCount: 0 }
    const names = name ? [{ namespace: team.slug, alias: name.alias }] : []
    try {
      await templates.insertTemplate({ ...template, ...rest }, names)
      return templateID
    } catch (error) {
      // Another snapshot took the name in the meantime.
      const taken = isAppError(error, 'already_exists') && name
      const other = taken ? await templates.findByAlias(team.slug, name.alias) : undefined
      if (!other) throw error
      return other.templateID
    }
  }
}

function forkOf(parent: Sandbox, timeoutMs: number, now: number): NewSandbox {
  const {
    state: _state,
    handle: _handle,
    snapshot: _snapshot,
    endedAt: _endedAt,
    endReason: _why,
    ...rest
  } = parent
  const identity = { sandboxID: newSandboxID(), runID: newUUID() }
  return { ...rest, ...identity, timeoutMs, createdAt: now, startedAt: now, endAt: now + timeoutMs }
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
    ...{ buildID, templateID, status: 'ready', snapshot },
    ...{ cpuCount: parent.cpuCount, memoryMB: parent.memoryMB, diskMB: parent.diskMB },
    envVars: { ...before.envVars, ...parent.envVars },
    ...{ createdAt: now, updatedAt: now, finishedAt: now },
  }
}
