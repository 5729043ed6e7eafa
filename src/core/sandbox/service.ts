/**
 * The life of a sandbox: the only place that changes its state. It knows the rules, the clock and the ports;
 * not HTTP, not SQL, not how a sandbox is made real.
 */
import type { Clock } from '../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../lib/ids.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { LogEntry } from '../logs.ts'
import type { IdempotencyClaim, SandboxFilter, SandboxPage, SandboxStore, TemplateStore } from '../stores.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import type { ResolvedTemplate, TemplateBuild } from '../template/template.ts'
import * as errors from './errors.ts'
import { ExpiryTimer } from './expiry.ts'
import type { SandboxLauncher } from './launcher.ts'
import { createdEntry, endedEntry } from './life-entries.ts'
import { checkCreateTimeout, checkTimeout, endAfter, refreshDuration } from './lifetime.ts'
import {
  type EndReason,
  isVisible,
  type NewSandbox,
  type Sandbox,
  type SandboxOptions,
  statesBefore,
} from './sandbox.ts'
import type { WarmPool, WarmSandbox } from './warm-pool.ts'

const expiryBatch = 50
const expiryRetryMs = 1000

export type CreateRequest = {
  template: string
  timeoutMs: number
  metadata: Record<string, string>
  envVars: Record<string, string>
  options: SandboxOptions
}

export type SandboxServiceParts = {
  sandboxes: SandboxStore
  templates: TemplateStore
  catalog: TemplateCatalog
  launcher: SandboxLauncher
  warm: WarmPool
  clock: Clock
  /** Adds to what can be read of a sandbox, without anybody waiting for it. */
  tell: (sandboxID: string, entry: LogEntry) => void
  log: Log
}

export class SandboxService {
  readonly #parts: SandboxServiceParts
  readonly #expiry: ExpiryTimer
  readonly #creating = new Map<string, { abort: AbortController; outcome: Promise<Sandbox> }>()
  readonly #ending = new JoinedWork<void>()

  constructor(parts: SandboxServiceParts) {
    this.#parts = parts
    this.#expiry = new ExpiryTimer(parts.clock, () => this.#expireDue())
  }

  async create(team: Team, request: CreateRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    const { clock, catalog, sandboxes, launcher, warm: pool } = this.#parts
    checkCreateTimeout(request.timeoutMs, team.limits)
    const resolved = await catalog.resolve(team, request.template)
    const spec = launcher.specOf(resolved.build, request.options)
    const warm = await pool.take(spec)
    const row = newSandbox(team, resolved, request, clock.now(), warm)
    const result = await sandboxes.insertWithinLimits(row, team.limits, claim).catch((error) => {
      if (warm) pool.putBack(spec, warm)
      throw error
    })
    if (!result.inserted) {
      if (warm) pool.putBack(spec, warm)
      if ('exceeded' in result) throw errors.teamLimitReached(result.exceeded, team.limits)
      if (result.earlier.requestHash !== claim?.requestHash) throw errors.idempotencyMismatch()
      return this.#earlierOutcome(result.earlier.sandboxID)
    }
    const abort = new AbortController()
    const outcome = this.#start(row, resolved.build, warm, abort.signal).finally(() =>
      this.#creating.delete(row.sandboxID),
    )
    this.#creating.set(row.sandboxID, { abort, outcome })
    if (warm) pool.settle(warm)
    return outcome
  }

  /** The sandbox as its team may see it: one that is being made or removed does not exist for it. */
  async get(team: Team, sandboxID: string): Promise<Sandbox> {
    const sandbox = await this.#parts.sandboxes.find(sandboxID)
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
  async ownedBy(team: Team, sandboxIDs: readonly string[]): Promise<string[]> {
    const rows = await Promise.all(sandboxIDs.map((sandboxID) => this.#parts.sandboxes.find(sandboxID)))
    return rows.flatMap((row) => (row?.teamID === team.teamID ? [row.sandboxID] : []))
  }

  /** Extends the life of a running sandbox, never shortens it. */
  async connect(team: Team, sandboxID: string, timeoutMs: number): Promise<Sandbox> {
    checkTimeout(timeoutMs, team.limits)
    return this.#setEnd(team, sandboxID, timeoutMs, true)
  }

  /** The end becomes now + timeoutMs, earlier or later than before; 0 ends the sandbox at once. */
  async setTimeout(team: Team, sandboxID: string, timeoutMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, timeoutMs, false)
  }

  async refresh(team: Team, sandboxID: string, durationMs: number): Promise<void> {
    await this.#setEnd(team, sandboxID, refreshDuration(durationMs), true)
  }

  async kill(team: Team, sandboxID: string): Promise<void> {
    const sandbox = await this.#parts.sandboxes.find(sandboxID)
    if (!sandbox || sandbox.teamID !== team.teamID || sandbox.state === 'ended') {
      throw errors.sandboxNotFound(sandboxID)
    }
    await this.end(sandboxID, 'killed')
  }

  /** Ends the sandbox whatever it is doing. Callers for the same sandbox share one ending. */
  end(sandboxID: string, reason: EndReason): Promise<void> {
    return this.#ending.run(sandboxID, async () => {
      const { sandboxes } = this.#parts
      for (let row = await sandboxes.find(sandboxID); row; row = await sandboxes.find(sandboxID)) {
        if (row.state === 'ended') return
        if (row.state === 'killing') return this.#finishEnd(row, reason)
        const at = { sandboxID, runID: row.runID, from: statesBefore('killing') }
        const taken = await sandboxes.move(at, 'killing')
        if (taken) return this.#finishEnd(taken, reason)
      }
    })
  }

  /** Ends what was seen in that run and state, unless it has moved on since. For what a crash left behind. */
  async endAsSeen(seen: Sandbox, reason: EndReason): Promise<void> {
    if (this.isBusyWith(seen.sandboxID)) return
    const { sandboxID, runID, state } = seen
    const at = { sandboxID, runID, from: [state] }
    const taken = state === 'killing' ? seen : await this.#parts.sandboxes.move(at, 'killing')
    if (taken) await this.end(sandboxID, reason)
  }

  /** True while this process is making or ending it, so that nobody else needs to. */
  isBusyWith(sandboxID: string): boolean {
    return this.#creating.has(sandboxID) || this.#ending.get(sandboxID) !== undefined
  }

  /** To be called once the rows may have changed behind the timer's back: at boot. */
  async armExpiry(): Promise<void> {
    const next = await this.#parts.sandboxes.nextEnd()
    if (next !== undefined) this.#expiry.arm(next)
  }

  /** Waits for creates under way; sandboxes live on. */
  async close(): Promise<void> {
    this.#expiry.close()
    await Promise.allSettled([...this.#creating.values()].map(({ outcome }) => outcome))
  }

  async #start(
    row: NewSandbox,
    build: TemplateBuild,
    warm: WarmSandbox | undefined,
    signal: AbortSignal,
  ): Promise<Sandbox> {
    const { sandboxes, templates, launcher, clock, tell, log } = this.#parts
    const { sandboxID, runID } = row
    try {
      await launcher.launch(row, build, warm, signal, async (handle) => {
        await sandboxes.saveHandle(sandboxID, runID, handle)
      })
    } catch (error) {
      log.error({ sandboxID, err: error }, 'create failed')
      await this.#giveUp(row)
      throw signal.aborted ? errors.killedWhileCreating(sandboxID) : error
    }
    const startedAt = clock.now()
    const changes = { startedAt, endAt: startedAt + row.timeoutMs }
    const running = await sandboxes.move({ sandboxID, runID, from: ['creating'] }, 'running', changes)
    // A kill came first: it waits for this outcome and then removes what was started.
    if (!running) throw errors.killedWhileCreating(sandboxID)
    tell(sandboxID, createdEntry(running))
    launcher.openRoute(running)
    this.#expiry.arm(running.endAt)
    await templates.recordSpawn(row.templateID, startedAt)
    log.info({ sandboxID, teamID: row.teamID, templateID: row.templateID }, 'sandbox running')
    return running
  }

  /** Nothing was left behind by the failed start; only the row is to be closed, unless a kill has it. */
  async #giveUp(row: NewSandbox): Promise<void> {
    const { sandboxes, clock } = this.#parts
    const { sandboxID, runID } = row
    await sandboxes.releaseClaim(row.teamID, sandboxID)
    const mine = await sandboxes.move({ sandboxID, runID, from: ['creating'] }, 'killing')
    if (!mine) return
    const changes = { endedAt: clock.now(), endReason: 'create_failed' as const }
    await sandboxes.move({ sandboxID, runID, from: ['killing'] }, 'ended', changes)
  }

  async #earlierOutcome(sandboxID: string): Promise<Sandbox> {
    const underway = this.#creating.get(sandboxID)
    if (underway) return underway.outcome
    const sandbox = await this.#parts.sandboxes.find(sandboxID)
    if (!sandbox || sandbox.endReason === 'create_failed') throw errors.idempotencyOutcomeUnknown()
    return sandbox
  }

  async #setEnd(team: Team, sandboxID: string, timeoutMs: number, onlyExtend: boolean): Promise<Sandbox> {
    const { sandboxes, clock } = this.#parts
    const sandbox = await this.get(team, sandboxID)
    if (sandbox.state !== 'running') throw errors.sandboxIsBusy(sandboxID, sandbox.state)
    const endAt = endAfter(clock.now(), timeoutMs, sandbox.startedAt, team.limits)
    const changed = await sandboxes.setEnd(sandboxID, sandbox.runID, endAt, onlyExtend)
    if (!changed) throw errors.sandboxNotFound(sandboxID)
    this.#expiry.arm(changed.endAt)
    return changed
  }

  async #finishEnd(row: Sandbox, reason: EndReason): Promise<void> {
    const { sandboxes, launcher, clock, tell, log } = this.#parts
    const { sandboxID, runID } = row
    const creating = this.#creating.get(sandboxID)
    if (creating) {
      creating.abort.abort(errors.killedWhileCreating(sandboxID))
      await creating.outcome.catch(() => {})
    }
    const { handle } = (await sandboxes.find(sandboxID)) ?? row
    await launcher.remove(sandboxID, runID, handle)
    if (reason === 'create_failed') await sandboxes.releaseClaim(row.teamID, sandboxID)
    const changes = { endedAt: clock.now(), endReason: reason }
    await sandboxes.move({ sandboxID, runID, from: ['killing'] }, 'ended', changes)
    tell(sandboxID, endedEntry(changes.endedAt, reason))
    log.info({ sandboxID, reason }, 'sandbox ended')
  }

  async #expireDue(): Promise<number | undefined> {
    const { sandboxes, clock, log } = this.#parts
    const retryAt = clock.now() + expiryRetryMs
    try {
      const due = await sandboxes.listExpired(clock.now(), expiryBatch)
      const ends = await Promise.allSettled(due.map(({ sandboxID }) => this.end(sandboxID, 'timeout')))
      for (const end of ends) {
        if (end.status === 'rejected') log.error({ err: end.reason }, 'a sandbox could not be ended')
      }
      return await sandboxes.nextEnd()
    } catch (error) {
      log.error({ err: error }, 'expiry could not read the store')
      return retryAt
    }
  }
}

function newSandbox(
  team: Team,
  resolved: ResolvedTemplate,
  request: CreateRequest,
  now: number,
  warm: WarmSandbox | undefined,
): NewSandbox {
  const { template, build, alias } = resolved
  return {
    sandboxID: warm?.sandboxID ?? newSandboxID(),
    teamID: team.teamID,
    templateID: template.templateID,
    buildID: build.buildID,
    alias,
    runID: warm?.runID ?? newUUID(),
    cpuCount: build.cpuCount,
    memoryMB: build.memoryMB,
    diskMB: build.diskMB,
    envdVersion: build.envdVersion,
    metadata: request.metadata,
    envVars: request.envVars,
    options: request.options,
    timeoutMs: request.timeoutMs,
    createdAt: now,
    startedAt: now,
    endAt: now + request.timeoutMs,
  }
}
