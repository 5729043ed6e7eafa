/**
 * The life of a sandbox, verb by verb. It and the files of its verbs are the only ones that change a state. They
 * know the rules, the clock and the ports; not HTTP, not SQL, not how a sandbox is made real.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { BytesFetcher } from '../archive/bytes-fetcher.ts'
import type { OwnerStore } from '../cluster/node.ts'
import type { Driver } from '../driver.ts'
import type { LogEntry } from '../logs.ts'
import type { IdempotencyClaim, SandboxFilter, SandboxPage, SandboxStore, TemplateStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import type { VolumeService } from '../volume/service.ts'
import type { Admission } from './admission.ts'
import {
  type ForkOutcome,
  type ForkRequest,
  SandboxCopier,
  type SnapshotRequest,
  type SnapshotTemplate,
} from './copier.ts'
import { type CreateRequest, SandboxCreator } from './creator.ts'
import type { SandboxEgress } from './egress.ts'
import { SandboxEnder } from './ender.ts'
import * as errors from './errors.ts'
import { Expiry } from './expiry.ts'
import type { SandboxLauncher } from './launcher.ts'
import { checkTimeout, endAfter, refreshDuration } from './lifetime.ts'
import { type NetworkUpdate, NetworkUpdater } from './network-updater.ts'
import type { OngoingWork } from './ongoing-work.ts'
import { type PauseOptions, Pauser } from './pauser.ts'
import type { Quarantine } from './quarantine.ts'
import { Resumer } from './resumer.ts'
import { type EndReason, isVisible, type Sandbox } from './sandbox.ts'
import type { SnapshotStore } from './snapshot-store.ts'
import { SpawnCounter } from './spawn-counter.ts'
import type { WarmPool } from './warm-pool.ts'

/** How many changes of state a connect waits out. */
const mostTransitions = 3

export type SandboxServiceParts = {
  admission: Admission
  sandboxes: SandboxStore
  owners: Pick<OwnerStore, 'findSandbox' | 'sandboxesOfTeam'>
  templates: TemplateStore
  catalog: TemplateCatalog
  driver: Driver
  launcher: SandboxLauncher
  egress: SandboxEgress
  volumes: Pick<VolumeService, 'resolve'>
  warm: WarmPool
  snapshots: SnapshotStore
  quarantine: Quarantine
  ongoing: OngoingWork
  /** Undefined where there is no object store. */
  fetcher: BytesFetcher | undefined
  /** Called when the snapshot of a paused sandbox or of a template is on the disk, and its row says so. */
  onKept: () => void
  clock: Clock
  /** Adds to the log of a sandbox, without anybody waiting for it. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

export type ConnectRequest = {
  timeoutMs: number
  /** False: a paused sandbox boots from its files, even if its memory was kept. */
  memory: boolean
}

export class SandboxService {
  readonly #parts: SandboxServiceParts
  readonly #ongoing: OngoingWork
  readonly #spawns: SpawnCounter
  readonly #creator: SandboxCreator
  readonly #pauser: Pauser
  readonly #resumer: Resumer
  readonly #copier: SandboxCopier
  readonly #networks: NetworkUpdater
  readonly #ender: SandboxEnder
  readonly #expiry: Expiry

  constructor(parts: SandboxServiceParts) {
    this.#parts = parts
    this.#ongoing = parts.ongoing
    const onRunning = ({ endAt }: Sandbox) => this.#expiry.arm(endAt)
    this.#spawns = new SpawnCounter(parts)
    const shared = { ...parts, onRunning, spawns: this.#spawns }
    this.#creator = new SandboxCreator(shared)
    this.#pauser = new Pauser(shared)
    this.#resumer = new Resumer(shared)
    this.#networks = new NetworkUpdater(shared)
    this.#copier = new SandboxCopier({
      ...shared,
      start: (team, row, build, snapshot) => this.#creator.start(team, row, build, { snapshot }),
    })
    this.#ender = new SandboxEnder(parts)
    this.#expiry = new Expiry({ ...parts, ender: this.#ender, pauser: this.#pauser })
  }

  /** How many creates this process has brought to an end, well or not. */
  get createCounts(): Readonly<{ successes: number; fails: number }> {
    return this.#creator.counts
  }

  create(team: Team, request: CreateRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    return this.#creator.create(team, request, claim)
  }

  /** The sandbox as its team may see it: one that is being made or removed does not exist for it. */
  async get(team: Team, sandboxID: string): Promise<Sandbox> {
    const sandbox = await this.#parts.sandboxes.find(sandboxID)
    if (!sandbox || sandbox.teamID !== team.teamID || !isVisible(sandbox.state)) {
      throw errors.sandboxNotFound(sandboxID)
    }
    return sandbox
  }

  /** The same for a sandbox of any node, as its row says. */
  async show(team: Team, sandboxID: string): Promise<Sandbox> {
    const sandbox = await this.#parts.owners.findSandbox(sandboxID)
    if (!sandbox || sandbox.teamID !== team.teamID || !isVisible(sandbox.state)) {
      throw errors.sandboxNotFound(sandboxID)
    }
    return sandbox
  }

  list(filter: SandboxFilter, page: SandboxPage): Promise<Sandbox[]> {
    return this.#parts.sandboxes.list(filter, page)
  }

  count(filter: SandboxFilter): Promise<number> {
    return this.#parts.sandboxes.count(filter)
  }

  /** Which of these are the team's, ended ones included: for what is remembered of a sandbox. */
  ownedBy(team: Team, sandboxIDs: readonly string[]): Promise<string[]> {
    return this.#parts.owners.sandboxesOfTeam(team.teamID, sandboxIDs)
  }

  /** Extends the life of a running sandbox, never shortens it; resumes a paused one. */
  async connect(
    team: Team,
    sandboxID: string,
    { timeoutMs, memory }: ConnectRequest,
  ): Promise<{ sandbox: Sandbox; resumed: boolean }> {
    const { sandboxes, clock } = this.#parts
    checkTimeout(timeoutMs, team.limits)
    for (let transition = 0; transition <= mostTransitions; transition++) {
      const row = await this.#known(team, sandboxID)
      if (row.state === 'running') {
        const endAt = endAfter(clock.now(), timeoutMs, row.startedAt, team.limits)
        const sandbox = await sandboxes.setEnd(sandboxID, row.runID, endAt, true)
        if (sandbox) {
          this.#expiry.arm(sandbox.endAt)
          return { sandbox, resumed: false }
        }
      } else if (row.state === 'paused') {
        const sandbox = await this.#resumer.resume(row, team.limits, { timeoutMs, memory })
        if (sandbox) return { sandbox, resumed: true }
      } else await this.#ongoing.finished(sandboxID)
    }
    throw errors.sandboxIsBusy(sandboxID, (await this.#known(team, sandboxID)).state)
  }

  /** Only what is paused or being paused. One that is being resumed is waited for: that resume is this one's too. */
  async resume(team: Team, sandboxID: string, request: ConnectRequest): Promise<Sandbox> {
    checkTimeout(request.timeoutMs, team.limits)
    let isShared = false
    for (let transition = 0; transition <= mostTransitions; transition++) {
      const row = await this.get(team, sandboxID)
      if (row.state === 'running') {
        if (isShared) return row
        throw errors.alreadyRunning(sandboxID)
      }
      isShared = row.state === 'resuming' || row.state === 'paused'
      const resumed =
        row.state === 'paused' ? await this.#resumer.resume(row, team.limits, request) : undefined
      if (resumed) return resumed
      if (row.state === 'snapshotting') throw errors.sandboxIsBusy(sandboxID, row.state)
      await this.#ongoing.finished(sandboxID)
    }
    throw errors.sandboxIsBusy(sandboxID, 'pausing')
  }

  /** One that is being paused is waited for: that pause is this one's too. */
  async pause(team: Team, sandboxID: string, options: Omit<PauseOptions, 'isAutomatic'>): Promise<void> {
    const row = await this.get(team, sandboxID)
    if (row.state === 'paused') return this.#stayPaused(row, options)
    const paused =
      row.state === 'running' ? await this.#pauser.pause(row, { ...options, isAutomatic: false }) : undefined
    if (paused) return
    if (row.state === 'running' || row.state === 'pausing') await this.#ongoing.finished(sandboxID)
    const now = await this.get(team, sandboxID)
    if (now.state !== 'paused') throw errors.cannotPause(sandboxID, now.state)
    if (now.runUntil !== null) return this.#stayPaused(now, options)
    // A pause that kept something else than was asked for is not this one.
    if (now.snapshot?.memory !== options.memory) throw errors.alreadyPaused(sandboxID)
  }

  /** What a drain has paused, so that it runs on elsewhere, stays paused for a client that asks for it. */
  async #stayPaused(row: Sandbox, { memory }: { memory: boolean }): Promise<void> {
    const { sandboxID, runID, runUntil, snapshot } = row
    if (runUntil === null) throw errors.alreadyPaused(sandboxID)
    const kept = { ...snapshot!, memory: snapshot!.memory && memory }
    if (!(await this.#parts.sandboxes.stayPaused(sandboxID, runID, kept)))
      throw errors.sandboxIsBusy(sandboxID, 'moving')
  }

  /**
   * Keeps its memory, if it still runs as it was seen; undefined when it does not. With `departs` also undefined when
   * its time ends at another moment by now; else its row says from the first step on that it is to run again until then.
   */
  pauseAsSeen(seen: Sandbox, { departs = false } = {}): Promise<Sandbox | undefined> {
    return this.#pauser.pause(seen, { memory: true, requireHealthyAgent: true, isAutomatic: false, departs })
  }

  /** With its memory, if it is still paused, and still to run again, as it was seen; undefined when it is not. */
  resumeAsSeen(seen: Sandbox, { limits }: Team, timeoutMs: number): Promise<Sandbox | undefined> {
    const markedUntil = seen.runUntil ?? undefined
    return this.#resumer.resume(seen, limits, { timeoutMs, memory: true, markedUntil })
  }

  fork(team: Team, sandboxID: string, request: ForkRequest): Promise<ForkOutcome[]> {
    return this.#copier.fork(team, sandboxID, request)
  }

  snapshot(team: Team, sandboxID: string, request: SnapshotRequest): Promise<SnapshotTemplate> {
    return this.#copier.snapshot(team, sandboxID, request)
  }

  /** The end becomes now + timeoutMs, earlier or later than before; 0 ends the sandbox at once. */
  async setTimeout(team: Team, sandboxID: string, timeoutMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, timeoutMs, false)
  }

  /** Replaces what may leave a running sandbox, at once. */
  async setNetwork(team: Team, sandboxID: string, update: NetworkUpdate): Promise<void> {
    const seen = await this.#running(team, sandboxID)
    if (!(await this.#networks.replace(seen, update))) throw errors.sandboxNotFound(sandboxID)
  }

  async refresh(team: Team, sandboxID: string, durationMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, refreshDuration(durationMs), true)
  }

  async kill(team: Team, sandboxID: string): Promise<void> {
    await this.#owned(team, sandboxID)
    await this.#ender.end(sandboxID, 'killed')
  }

  /** Ends what was found in that run and state, unless it has moved on since. */
  async endAsSeen(seen: Sandbox, reason: EndReason, detail?: string): Promise<void> {
    if (!this.isBusyWith(seen.sandboxID)) await this.#ender.endAsSeen(seen, reason, detail)
  }

  /** True while this process is doing something to it, so that nobody else needs to. */
  isBusyWith(sandboxID: string): boolean {
    return this.#ongoing.has(sandboxID) || this.#ender.isEnding(sandboxID)
  }

  /**
   * Finishes or undoes a pause, a resume or a copy that was cut off, by what is really there. False: nothing is.
   * Rejects when that could not be found out; the row is left as it is then.
   */
  repair(seen: Sandbox): Promise<boolean> {
    return this.#ongoing.run(seen.sandboxID, async (signal) => {
      switch (seen.state) {
        case 'pausing':
          return this.#pauser.repair(seen)
        case 'paused':
          return this.#resumer.repairPaused(seen)
        case 'resuming':
          return this.#resumer.repairResuming(seen, signal)
        case 'snapshotting':
          await this.#copier.repair(seen)
          return true
        default:
          return false
      }
    })
  }

  /** To be called once the rows may have changed behind the timer's back: at boot. */
  armExpiry(): Promise<void> {
    return this.#expiry.armNext()
  }

  /** Waits for what is under way; sandboxes live on. */
  async close(): Promise<void> {
    this.#expiry.close()
    await this.#ongoing.allFinished()
    await this.#spawns.close()
  }

  /** Not ended, and the team's. */
  async #owned(team: Team, sandboxID: string): Promise<Sandbox> {
    const row = await this.#parts.sandboxes.find(sandboxID)
    if (!row || row.teamID !== team.teamID || row.state === 'ended') throw errors.sandboxNotFound(sandboxID)
    return row
  }

  /** One that is being made is not known to anybody yet; one that is being killed is told apart. */
  async #known(team: Team, sandboxID: string): Promise<Sandbox> {
    const row = await this.#owned(team, sandboxID)
    if (row.state === 'creating') throw errors.sandboxNotFound(sandboxID)
    if (row.state === 'killing') throw errors.sandboxEnds(sandboxID)
    return row
  }

  /** For what only a running sandbox can be told. */
  async #running(team: Team, sandboxID: string): Promise<Sandbox> {
    const sandbox = await this.get(team, sandboxID)
    if (sandbox.state === 'paused') throw errors.sandboxNotFound(sandboxID)
    if (sandbox.state !== 'running') throw errors.sandboxIsBusy(sandboxID, sandbox.state)
    return sandbox
  }

  async #setEnd(team: Team, sandboxID: string, timeoutMs: number, onlyExtend: boolean): Promise<Sandbox> {
    const { sandboxes, clock } = this.#parts
    const sandbox = await this.#running(team, sandboxID)
    const endAt = endAfter(clock.now(), timeoutMs, sandbox.startedAt, team.limits)
    const changed = await sandboxes.setEnd(sandboxID, sandbox.runID, endAt, onlyExtend)
    if (!changed) throw errors.sandboxNotFound(sandboxID)
    this.#expiry.arm(changed.endAt)
    return changed
  }
}
