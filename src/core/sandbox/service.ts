/**
 * The life of a sandbox, verb by verb. Only this file and those of the verbs change the state of a sandbox. They
 * know the rules, the clock and the ports; they do not know HTTP, SQL or the driver's way to make a sandbox.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Driver } from '../ports/driver.ts'
import type { LogEntry } from '../ports/logs.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import type { TemplateStore } from '../template/template-store.ts'
import type { VolumeService } from '../volume/service.ts'
import type { Admission } from './capacity/admission.ts'
import type { DiskGuard } from './capacity/disk-guard.ts'
import type { HeldSandboxes } from './capacity/held-sandboxes.ts'
import { Expiry } from './expiry.ts'
import type { SandboxLauncher } from './launch/launcher.ts'
import type { SandboxEgress } from './network/egress.ts'
import * as errors from './row/errors.ts'
import { pausedForMemoryEntry } from './row/life-entries.ts'
import { checkTimeout, endAfter, refreshDuration } from './row/lifetime.ts'
import type { EndReason, Sandbox } from './row/sandbox.ts'
import type {
  EarlierRequest,
  IdempotencyClaim,
  SandboxFilter,
  SandboxFinder,
  SandboxPage,
  SandboxStore,
} from './row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from './row/sandbox-turns.ts'
import { known, owned, running, visible } from './row/usable-rows.ts'
import type { BytesSource } from './snapshots/bytes-source.ts'
import type { Quarantine } from './snapshots/quarantine.ts'
import type { SnapshotStore } from './snapshots/snapshot-store.ts'
import { MemoryArrivals } from './verbs/arrivals.ts'
import {
  type ForkOutcome,
  type ForkRequest,
  SandboxCopier,
  type SnapshotRequest,
  type SnapshotTemplate,
} from './verbs/copier.ts'
import { CreateCounter } from './verbs/create-counter.ts'
import { type CreateRequest, SandboxCreator } from './verbs/creator.ts'
import { SandboxEnder } from './verbs/ender.ts'
import { type NetworkUpdate, NetworkUpdater } from './verbs/network-updater.ts'
import { type PauseOptions, Pauser } from './verbs/pauser.ts'
import { Resumer } from './verbs/resumer.ts'
import type { WarmPool } from './warm-pool/warm-pool.ts'

type SandboxServiceParts = {
  admission: Admission
  sandboxes: SandboxStore
  owners: SandboxFinder
  templates: TemplateStore
  catalog: TemplateCatalog
  driver: Driver
  launcher: SandboxLauncher
  egress: SandboxEgress
  volumes: Pick<VolumeService, 'resolve'>
  warm: WarmPool
  snapshots: SnapshotStore
  quarantine: Quarantine
  turns: SandboxTurns
  diskGuard: Pick<DiskGuard, 'require' | 'requireForSnapshot'>
  held: Pick<HeldSandboxes, 'whyHeld'>
  /** Undefined where there is no object store. */
  fetcher: BytesSource | undefined
  /** Called when the snapshot of a paused sandbox or of a template is on the disk and its row is written. */
  onSnapshotTaken: () => void
  clock: Clock
  /** Adds an entry to the log of a sandbox; nobody waits for the write. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

type ConnectRequest = {
  timeoutMs: number
  /** False: a paused sandbox boots from its files, even if its snapshot contains memory. */
  memory: boolean
}

export class SandboxService {
  readonly #parts: SandboxServiceParts
  readonly #turns: SandboxTurns
  readonly #createCounter: CreateCounter
  readonly #creator: SandboxCreator
  readonly #pauser: Pauser
  readonly #resumer: Resumer
  readonly #copier: SandboxCopier
  readonly #networks: NetworkUpdater
  readonly #arrivals: MemoryArrivals
  readonly #ender: SandboxEnder
  readonly #expiry: Expiry

  constructor(parts: SandboxServiceParts) {
    this.#parts = parts
    this.#turns = parts.turns
    const onRunning = ({ endAt }: Sandbox) => this.#expiry.arm(endAt)
    this.#createCounter = new CreateCounter(parts)
    this.#arrivals = new MemoryArrivals(parts)
    const shared = { ...parts, onRunning, createCounter: this.#createCounter, arrivals: this.#arrivals }
    this.#ender = new SandboxEnder(parts)
    this.#creator = new SandboxCreator({ ...shared, ender: this.#ender })
    this.#pauser = new Pauser(shared)
    this.#resumer = new Resumer(shared)
    this.#networks = new NetworkUpdater(shared)
    this.#copier = new SandboxCopier({
      ...shared,
      start: (team, row, build, snapshot) => this.#creator.start(team, row, build, { snapshot }),
    })
    this.#expiry = new Expiry({ ...parts, ender: this.#ender, pauser: this.#pauser })
  }

  /** Number of creates that this process has finished, by outcome. */
  get createCounts(): Readonly<{ successes: number; fails: number }> {
    return this.#creator.counts
  }

  create(team: Team, request: CreateRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    return this.#creator.create(team, request, claim)
  }

  /** For a create that another node carried out: returns its sandbox. */
  createdBy(earlier: EarlierRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    return this.#creator.earlierOutcome(earlier, claim)
  }

  /** Returns the sandbox as its team may see it: a sandbox that is being created or killed is not found. */
  async get(team: Team, sandboxID: string): Promise<Sandbox> {
    return visible(team, sandboxID, await this.#parts.sandboxes.find(sandboxID))
  }

  /** Like `get`, for a sandbox of any node, read from its row. */
  async show(team: Team, sandboxID: string): Promise<Sandbox> {
    return visible(team, sandboxID, await this.#parts.owners.findSandbox(sandboxID))
  }

  list(filter: SandboxFilter, page: SandboxPage): Promise<Sandbox[]> {
    return this.#parts.sandboxes.list(filter, page)
  }

  count(filter: SandboxFilter): Promise<number> {
    return this.#parts.sandboxes.count(filter)
  }

  /** Returns which of these sandboxes belong to the team, ended ones included; used for logs, metrics and events. */
  ownedBy(team: Team, sandboxIDs: readonly string[]): Promise<string[]> {
    return this.#parts.owners.sandboxesOfTeam(team.teamID, sandboxIDs)
  }

  /** Extends the life of a running sandbox, never shortens it; resumes a paused one. */
  async connect(
    team: Team,
    sandboxID: string,
    { timeoutMs, memory }: ConnectRequest,
  ): Promise<{ sandbox: Sandbox; resumed: boolean }> {
    checkTimeout(timeoutMs, team.limits)
    const seen = await this.#known(team, sandboxID)
    const extended = seen.state === 'running' ? await this.#setEndOf(team, seen, timeoutMs, true) : undefined
    if (extended) return { sandbox: extended, resumed: false }
    return this.#turns.take(sandboxID, async ({ row, signal }) => {
      const now = known(team, sandboxID, row)
      const resumed =
        now.state === 'paused' &&
        (await this.#resumer.resume(now, team.limits, { timeoutMs, memory }, signal))
      if (resumed) return { sandbox: resumed, resumed: true }
      const extended = now.state === 'running' && (await this.#setEndOf(team, now, timeoutMs, true))
      if (extended) return { sandbox: extended, resumed: false }
      throw errors.sandboxIsBusy(sandboxID, (await this.#known(team, sandboxID)).state)
    })
  }

  /** Resumes a sandbox that is paused or being paused. Joins a resume that is already in progress. */
  async resume(team: Team, sandboxID: string, request: ConnectRequest): Promise<Sandbox> {
    checkTimeout(request.timeoutMs, team.limits)
    const seen = await this.get(team, sandboxID)
    if (seen.state === 'running') throw errors.alreadyRunning(sandboxID)
    if (seen.state === 'snapshotting') throw errors.sandboxIsBusy(sandboxID, seen.state)
    return this.#turns.take(sandboxID, async ({ row, signal }) => {
      const now = visible(team, sandboxID, row)
      if (now.state === 'running') return now
      const resumed =
        now.state === 'paused' && (await this.#resumer.resume(now, team.limits, request, signal))
      if (resumed) return resumed
      throw errors.sandboxIsBusy(sandboxID, (await this.get(team, sandboxID)).state)
    })
  }

  /** Pauses a running sandbox. Joins a pause that is already in progress. */
  async pause(team: Team, sandboxID: string, options: Omit<PauseOptions, 'isAutomatic'>): Promise<void> {
    const seen = await this.get(team, sandboxID)
    if (seen.state === 'paused' && seen.runUntil === null) throw errors.alreadyPaused(sandboxID)
    await this.#turns.take(sandboxID, async ({ row, signal }) => {
      const now = visible(team, sandboxID, row)
      if (now.state === 'paused' && now.runUntil !== null) return this.#stayPaused(now, options)
      const paused =
        now.state === 'running'
          ? await this.#pauser.pause(now, { ...options, isAutomatic: false }, signal)
          : now
      if (!paused) throw await this.#turns.overtaken(now, 'paused')
      if (paused.state !== 'paused') throw errors.cannotPause(sandboxID, paused.state)
      // A pause that was joined may have taken a snapshot of another kind than this request asks for.
      if (paused.snapshot?.memory !== options.memory) throw errors.alreadyPaused(sandboxID)
    })
  }

  /** A drain has paused the sandbox to resume it on another node; a client's pause keeps it paused instead. */
  async #stayPaused(row: SandboxInTurn, { memory }: { memory: boolean }): Promise<void> {
    const kept = { ...row.snapshot!, memory: row.snapshot!.memory && memory }
    if (!(await this.#turns.stayPaused(row, kept))) throw errors.sandboxIsBusy(row.sandboxID, 'moving')
  }

  /**
   * Pauses the sandbox with its memory, if its run and its end are still those in `seen`; otherwise resolves with
   * undefined. With `departs`, the row notes from the first step on that the sandbox is to run again until that end.
   */
  pauseAsSeen(seen: Sandbox, { departs = false } = {}): Promise<Sandbox | undefined> {
    const options = { memory: true, requireHealthyAgent: true, isAutomatic: false, departs }
    return this.#turns.take(seen.sandboxID, async ({ row, signal }) =>
      row?.state === 'running' && row.runID === seen.runID && row.endAt === seen.endAt
        ? this.#pauser.pause(row, options, signal)
        : undefined,
    )
  }

  /**
   * Pauses a running sandbox with its memory because the machine is short of memory. Undefined: another operation has
   * the sandbox's turn. False: the sandbox does not run. Rejects at once if its memory still arrives: the object store may be
   * away, and the machine cannot wait for it.
   */
  pauseForMemory(sandboxID: string): Promise<boolean> | undefined {
    const options = { memory: true, requireHealthyAgent: false, isAutomatic: false }
    return this.#turns.takeIfFree(sandboxID, async ({ row, signal }) => {
      if (row?.snapshot?.arrivesFrom) throw errors.memoryNotArrived(sandboxID, undefined)
      const paused = row?.state === 'running' && (await this.#pauser.pause(row, options, signal))
      if (!paused) return false
      this.#parts.appendLog(sandboxID, pausedForMemoryEntry(this.#parts.clock.now()))
      return true
    })
  }

  /** Resumes a sandbox with its memory if its pause is still the one in `seen`; otherwise resolves with undefined. */
  resumeAsSeen(seen: Sandbox, { limits }: Team, timeoutMs: number): Promise<Sandbox | undefined> {
    return this.#turns.take(seen.sandboxID, async ({ row, signal }) =>
      row?.state === 'paused' && row.runID === seen.runID && row.runUntil === seen.runUntil
        ? this.#resumer.resume(row, limits, { timeoutMs, memory: true }, signal)
        : undefined,
    )
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

  /** Replaces the egress policy of a running sandbox at once. */
  async setNetwork(team: Team, sandboxID: string, update: NetworkUpdate): Promise<void> {
    const seen = await this.#running(team, sandboxID)
    if (await this.#networks.replace(seen, update)) return
    await this.#running(team, sandboxID)
    throw errors.sandboxNotFound(sandboxID)
  }

  async refresh(team: Team, sandboxID: string, durationMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, refreshDuration(durationMs), true)
  }

  async kill(team: Team, sandboxID: string): Promise<void> {
    await this.#owned(team, sandboxID)
    await this.#ender.end(sandboxID, 'killed')
  }

  /**
   * Ends a running sandbox because the machine is short of something; one whose memory still arrives is paused as it was before
   * its resume. A sandbox that does not run is not touched.
   */
  async endRunning(sandboxID: string, reason: EndReason): Promise<void> {
    const seen = await this.#parts.sandboxes.find(sandboxID)
    const isLive = (row: Sandbox) => row.state === 'running' || row.state === 'snapshotting'
    if (!seen || !isLive(seen)) return
    if (!seen.snapshot?.arrivesFrom) return this.#ender.beginAsSeen(seen, reason)
    // Whoever has the turn may wait for that memory.
    this.#turns.cancel(sandboxID, errors.memoryNotArrived(sandboxID, undefined))
    await this.#turns.take(sandboxID, async ({ row }) => {
      if (row?.runID !== seen.runID || !isLive(row)) return
      if (!(await this.returnToStored(row, reason))) await this.#ender.endInTurn(row, reason)
    })
  }

  /** Ends a sandbox whose turn the caller has. */
  endInTurn(row: SandboxInTurn, reason: EndReason, detail?: string): Promise<void> {
    return this.#ender.endInTurn(row, reason, detail)
  }

  /**
   * Finishes or undoes a pause or a resume that was cut off. False: neither the sandbox nor a snapshot exists any more.
   * Rejects, and leaves the row as it is, if that is not certain.
   */
  async repair(row: SandboxInTurn, signal: AbortSignal): Promise<boolean> {
    switch (row.state) {
      case 'pausing':
        return this.#pauser.repair(row)
      case 'paused':
        return this.#resumer.repairPaused(row)
      case 'resuming':
        return this.#resumer.repairResuming(row, signal)
      default:
        return false
    }
  }

  /** Lets a sandbox continue whose copy was cut off. Undefined: the sandbox is being killed. */
  repairCopied(row: SandboxInTurn): Promise<SandboxInTurn | undefined> {
    return this.#copier.repair(row)
  }

  /** True if nothing of the sandbox's memory is missing, or if somebody loads it. */
  isLoadKept(row: Sandbox): boolean {
    return this.#arrivals.isKept(row)
  }

  /** Loads the missing memory of a running sandbox. */
  keepLoad(row: Sandbox): void {
    this.#arrivals.keep(row)
  }

  /** Returns a sandbox that is gone to its stored snapshot. False if its memory does not arrive from there. */
  async returnToStored(row: SandboxInTurn, why: string): Promise<boolean> {
    const stored = row.snapshot?.arrivesFrom
    if (stored) await this.#arrivals.returnToStored(row, stored, why)
    return stored !== undefined
  }

  /** Sets the timer by the rows. Call it after rows may have changed without the timer, as at boot. */
  armExpiry(): Promise<void> {
    return this.#expiry.armNext()
  }

  /** Waits for operations in progress. Sandboxes keep running. */
  async close(): Promise<void> {
    this.#expiry.close()
    this.#creator.close()
    // First, because a pause may wait for a load.
    const closed = this.#arrivals.close()
    await this.#turns.allFinished()
    await closed
    await this.#createCounter.close()
  }

  /** Returns a sandbox of the team that has not ended; otherwise throws `not_found`. */
  async #owned(team: Team, sandboxID: string): Promise<Sandbox> {
    return owned(team, sandboxID, await this.#parts.sandboxes.find(sandboxID))
  }

  async #known(team: Team, sandboxID: string): Promise<Sandbox> {
    return known(team, sandboxID, await this.#parts.sandboxes.find(sandboxID))
  }

  async #running(team: Team, sandboxID: string): Promise<Sandbox> {
    return running(await this.get(team, sandboxID))
  }

  /** Waits for a snapshot in progress, after which the sandbox goes on. */
  async #setEnd(team: Team, sandboxID: string, timeoutMs: number, onlyExtend: boolean): Promise<void> {
    const seen = await this.get(team, sandboxID)
    const isCopied = seen.state === 'snapshotting'
    if (!isCopied && (await this.#setEndOf(team, running(seen), timeoutMs, onlyExtend))) return
    // A snapshot is being taken, or the row has changed since it was read. Other requests may go on changing its end.
    await this.#turns.take(sandboxID, async () => {
      for (let tries = 0; tries < 10; tries++)
        if (await this.#setEndOf(team, await this.#running(team, sandboxID), timeoutMs, onlyExtend)) return
      throw errors.sandboxIsBusy(sandboxID, 'changing')
    })
  }

  /** Undefined: the run in `seen` is over, its state has changed, or its end is another one by now. */
  async #setEndOf(
    team: Team,
    seen: Sandbox,
    timeoutMs: number,
    onlyExtend: boolean,
  ): Promise<Sandbox | undefined> {
    const { sandboxID, runID, startedAt, endAt: was } = seen
    const endAt = endAfter(this.#parts.clock.now(), timeoutMs, startedAt, team.limits)
    const at = { sandboxID, runID, ...(!onlyExtend && { endAt: was }) }
    const sandbox = await this.#parts.sandboxes.setEnd(at, endAt, onlyExtend)
    if (sandbox) this.#expiry.arm(sandbox.endAt)
    return sandbox
  }
}
