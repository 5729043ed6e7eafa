/**
 * What clients do with sandboxes. It knows the rules, the clock and the ports; it does not know HTTP, SQL or the driver's way to
 * make a sandbox. What Warren itself does with them is in `upkeep.ts`.
 */
import type { Team } from '../team/team.ts'
import * as errors from './row/errors.ts'
import { checkTimeout, endAfter, refreshDuration } from './row/lifetime.ts'
import type { Sandbox } from './row/sandbox.ts'
import type { EarlierRequest, IdempotencyClaim, SandboxFilter, SandboxPage } from './row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from './row/sandbox-turns.ts'
import { known, owned, running, visible } from './row/usable-rows.ts'
import type { SandboxVerbParts, SandboxVerbs } from './sandbox-verbs.ts'
import type { ForkOutcome, ForkRequest, SnapshotRequest, SnapshotTemplate } from './verbs/copier.ts'
import type { CreateRequest } from './verbs/creator.ts'
import type { NetworkUpdate } from './verbs/network-updater.ts'
import type { PauseOptions } from './verbs/pauser.ts'

type SandboxServiceParts = Pick<SandboxVerbParts, 'sandboxes' | 'owners' | 'turns' | 'clock'>

type ConnectRequest = {
  timeoutMs: number
  /** False: a paused sandbox boots from its files, even if its snapshot contains memory. */
  memory: boolean
}

export class SandboxService {
  readonly #parts: SandboxServiceParts
  readonly #turns: SandboxTurns
  readonly #verbs: SandboxVerbs

  constructor(parts: SandboxServiceParts, verbs: SandboxVerbs) {
    this.#parts = parts
    this.#turns = parts.turns
    this.#verbs = verbs
  }

  /** Number of creates that this process has finished, by outcome. */
  get createCounts(): Readonly<{ successes: number; fails: number }> {
    return this.#verbs.creator.counts
  }

  create(team: Team, request: CreateRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    return this.#verbs.creator.create(team, request, claim)
  }

  /** For a create that another node carried out: returns its sandbox. */
  createdBy(earlier: EarlierRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    return this.#verbs.creator.earlierOutcome(earlier, claim)
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
    return this.#turns.acquire(sandboxID, async ({ row, signal }) => {
      const now = known(team, sandboxID, row)
      const resumed =
        now.state === 'paused' &&
        (await this.#verbs.resumer.resume(now, team.limits, { timeoutMs, memory }, signal))
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
    return this.#turns.acquire(sandboxID, async ({ row, signal }) => {
      const now = visible(team, sandboxID, row)
      if (now.state === 'running') return now
      const resumed =
        now.state === 'paused' && (await this.#verbs.resumer.resume(now, team.limits, request, signal))
      if (resumed) return resumed
      throw errors.sandboxIsBusy(sandboxID, (await this.get(team, sandboxID)).state)
    })
  }

  /** Pauses a running sandbox. Joins a pause that is already in progress. */
  async pause(team: Team, sandboxID: string, options: Omit<PauseOptions, 'isAutomatic'>): Promise<void> {
    const seen = await this.get(team, sandboxID)
    if (seen.state === 'paused' && seen.runUntil === null) throw errors.alreadyPaused(sandboxID)
    await this.#turns.acquire(sandboxID, async ({ row, signal }) => {
      const now = visible(team, sandboxID, row)
      if (now.state === 'paused' && now.runUntil !== null) return this.#stayPaused(now, options)
      const paused =
        now.state === 'running'
          ? await this.#verbs.pauser.pause(now, { ...options, isAutomatic: false }, signal)
          : now
      if (!paused) throw await this.#turns.overtaken(now, 'paused')
      if (paused.state !== 'paused') throw errors.cannotPause(sandboxID, paused.state)
      // A pause that was joined may have taken a snapshot of another kind than this request asks for.
      if (paused.snapshot?.memory !== options.memory) throw errors.alreadyPaused(sandboxID)
    })
  }

  /** A drain has paused the sandbox to resume it on another node; a client's pause keeps it paused instead. */
  async #stayPaused(row: SandboxInTurn, { memory }: { memory: boolean }): Promise<void> {
    const remaining = { ...row.snapshot!, memory: row.snapshot!.memory && memory }
    if (!(await this.#turns.stayPaused(row, remaining))) throw errors.sandboxIsBusy(row.sandboxID, 'moving')
  }

  fork(team: Team, sandboxID: string, request: ForkRequest): Promise<ForkOutcome[]> {
    return this.#verbs.copier.fork(team, sandboxID, request)
  }

  snapshot(team: Team, sandboxID: string, request: SnapshotRequest): Promise<SnapshotTemplate> {
    return this.#verbs.copier.snapshot(team, sandboxID, request)
  }

  /** The end becomes now + timeoutMs, earlier or later than before; 0 ends the sandbox at once. */
  async setTimeout(team: Team, sandboxID: string, timeoutMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, timeoutMs, false)
  }

  /** Replaces the egress policy of a running sandbox at once. */
  async setNetwork(team: Team, sandboxID: string, update: NetworkUpdate): Promise<void> {
    const seen = await this.#running(team, sandboxID)
    if (await this.#verbs.networks.replace(seen, update)) return
    await this.#running(team, sandboxID)
    throw errors.sandboxNotFound(sandboxID)
  }

  async refresh(team: Team, sandboxID: string, durationMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, refreshDuration(durationMs), true)
  }

  async kill(team: Team, sandboxID: string): Promise<void> {
    await this.#owned(team, sandboxID)
    await this.#verbs.ender.end(sandboxID, 'killed')
  }

  /** Waits for operations in progress. Sandboxes keep running. */
  async close(): Promise<void> {
    this.#verbs.expiry.close()
    this.#verbs.creator.close()
    // The loads of memory end first, because a pause may wait for one.
    const closed = this.#verbs.arrivals.close()
    await this.#turns.allFinished()
    await closed
    await this.#verbs.createCounter.close()
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
    await this.#turns.acquire(sandboxID, async () => {
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
    if (sandbox) this.#verbs.expiry.arm(sandbox.endAt)
    return sandbox
  }
}
