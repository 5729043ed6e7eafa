/** Create: from a request to a running sandbox, or to an ended row with nothing behind it. */
import { sleep } from '../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../lib/ids.ts'
import type { OwnerStore } from '../cluster/node.ts'
import type { DriverHandle } from '../driver.ts'
import type { IdempotencyClaim } from '../stores.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import type { ResolvedTemplate, TemplateBuild } from '../template/template.ts'
import type { VolumeService } from '../volume/service.ts'
import type { WantedMount } from '../volume/volume.ts'
import type { Admission } from './admission.ts'
import type { SandboxEgress } from './egress.ts'
import * as errors from './errors.ts'
import { LaunchLeftover, type LaunchOptions, type SandboxLauncher } from './launcher.ts'
import { createdEntry } from './life-entries.ts'
import { checkCreateTimeout } from './lifetime.ts'
import { isVisible, type NewSandbox, type Sandbox, type SandboxOptions } from './sandbox.ts'
import type { SpawnCounter } from './spawn-counter.ts'
import { checkTexts } from './text-limits.ts'
import type { VerbParts } from './verb-parts.ts'
import type { WarmPool } from './warm-pool.ts'
import type { WarmSandbox } from './warm-sandbox.ts'

export type CreateRequest = {
  template: string
  timeoutMs: number
  metadata: Record<string, string>
  envVars: Record<string, string>
  /** Those of the sandbox are found by these. */
  volumeMounts?: readonly WantedMount[]
  options: Omit<SandboxOptions, 'volumeMounts'>
}

/** A request with the same idempotency key that another node carries out is waited for, and looked at this often. */
const waitForOtherMs = 60_000
const lookAgainMs = 200

export type CreatorParts = VerbParts & {
  owners: Pick<OwnerStore, 'findSandbox'>
  admission: Admission
  spawns: SpawnCounter
  catalog: TemplateCatalog
  launcher: SandboxLauncher
  egress: SandboxEgress
  volumes: Pick<VolumeService, 'resolve'>
  warm: WarmPool
}

/** `isPooled`: the warm pool keeps sandboxes of this kind. */
type StartOptions = LaunchOptions & { isPooled?: boolean }

/** `takeTurn` waits until the machine has room for a boot. */
type LaunchWork = { signal: AbortSignal; takeTurn: () => Promise<void> }

export class SandboxCreator {
  readonly #parts: CreatorParts
  readonly #outcomes = new Map<string, Promise<Sandbox>>()
  /** Since this process began. */
  readonly counts = { successes: 0, fails: 0 }

  constructor(parts: CreatorParts) {
    this.#parts = parts
  }

  async create(team: Team, request: CreateRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    const { clock, catalog, launcher, egress, volumes, warm: pool } = this.#parts
    checkCreateTimeout(request.timeoutMs, team.limits)
    checkTexts(request)
    await egress.check(request.options)
    const resolved = await catalog.resolve(team, request.template)
    const { build } = resolved
    const mounts = await volumes.resolve(team, request.volumeMounts ?? [])
    // Nothing can be mounted in a sandbox that runs already, nor in memory that knows no such mount.
    const isBare = mounts.length === 0
    const warm = isBare ? pool.take(build) : undefined
    const snapshot = isBare ? launcher.memoryOf(build) : undefined
    const options = { ...request.options, ...(!isBare && { volumeMounts: mounts }) }
    const row = newSandbox(team, resolved, { ...request, options }, clock.now(), warm)
    try {
      return await this.start(team, row, build, { warm, snapshot, isPooled: isBare }, claim)
    } finally {
      // Still held: no row took the warm sandbox.
      if (warm && pool.holds(warm.sandboxID)) pool.putBack(warm)
    }
  }

  /** Inserts the row within the limits of its team, and makes it real. */
  async start(
    team: Team,
    row: NewSandbox,
    build: TemplateBuild,
    { isPooled = false, ...options }: StartOptions,
    claim?: IdempotencyClaim,
  ): Promise<Sandbox> {
    const { sandboxes, ongoing, warm: pool } = this.#parts
    const result = await sandboxes.insertWithinLimits(row, team.limits, claim)
    if (!result.inserted) {
      if ('exceeded' in result) throw errors.teamLimitReached(result.exceeded, team.limits)
      if (result.earlier.requestHash !== claim?.requestHash) throw errors.idempotencyMismatch()
      return this.#earlierOutcome(result.earlier.sandboxID)
    }
    if (isPooled) pool.recordCreate(build, options.warm !== undefined)
    const outcome = ongoing.run(row.sandboxID, (signal) => this.#launch(row, build, options, signal))
    this.#outcomes.set(row.sandboxID, outcome)
    outcome.then(
      () => this.counts.successes++,
      () => this.counts.fails++,
    )
    return outcome.finally(() => {
      this.#outcomes.delete(row.sandboxID)
      if (options.warm) pool.release(options.warm)
    })
  }

  /** What it takes of the machine is counted as that of a start until its row counts as running. */
  async #launch(
    row: NewSandbox,
    build: TemplateBuild,
    options: LaunchOptions,
    signal: AbortSignal,
  ): Promise<Sandbox> {
    let endTurn = () => {}
    const takeTurn = async () => {
      endTurn = await this.#parts.admission.enter(row, signal)
    }
    return this.#launchInTurn(row, build, options, { signal, takeTurn }).finally(() => endTurn())
  }

  async #launchInTurn(
    row: NewSandbox,
    build: TemplateBuild,
    options: LaunchOptions,
    work: LaunchWork,
  ): Promise<Sandbox> {
    const { signal } = work
    const { sandboxes, spawns, launcher, clock, appendLog, onRunning, log } = this.#parts
    const { sandboxID, runID } = row
    const handle = await this.#launchAny(row, build, options, work).catch(async (error) => {
      log.error({ sandboxID, err: error }, 'create failed')
      // Whoever kills it has the row. What could not be stopped keeps its row, and the reconciler ends both.
      if (error instanceof LaunchLeftover) await this.#leave(row, error.handle)
      if (signal.aborted) throw errors.killedWhile(sandboxID, 'created')
      if (!(error instanceof LaunchLeftover)) await this.#giveUp(row)
      throw error
    })
    const startedAt = clock.now()
    const changes = { handle, startedAt, endAt: startedAt + row.timeoutMs }
    const running = await sandboxes.move({ sandboxID, runID, from: ['creating'] }, 'running', changes)
    if (!running) {
      // The answer of the move was lost, and others who saw it running did something with it since: it was made.
      const later = await sandboxes.find(sandboxID)
      if (later && isVisible(later.state)) return later
      // A kill came first: it waits for this outcome and then removes what was started.
      await this.#leave(row, handle)
      throw errors.killedWhile(sandboxID, 'created')
    }
    appendLog(sandboxID, createdEntry(running))
    launcher.openRoute(running)
    onRunning(running)
    spawns.count(row.templateID, startedAt)
    log.info({ sandboxID, teamID: row.teamID, templateID: row.templateID }, 'sandbox running')
    return running
  }

  /** A warm sandbox runs already, and needs no turn. One that is of no use is gone, and another one starts. */
  async #launchAny(
    row: NewSandbox,
    build: TemplateBuild,
    { warm, snapshot }: LaunchOptions,
    { signal, takeTurn }: LaunchWork,
  ): Promise<DriverHandle> {
    const { launcher, log } = this.#parts
    if (warm) {
      try {
        return await launcher.launch(row, build, { warm }, signal)
      } catch (error) {
        if (signal.aborted || error instanceof LaunchLeftover) throw error
        const { sandboxID } = row
        log.warn({ sandboxID, err: error }, 'A sandbox of the warm pool was of no use; one boots.')
      }
    }
    await takeTurn()
    return launcher.launch(row, build, { snapshot }, signal)
  }

  /** Whoever ends the row finds in it what was started; where it cannot be told, that goes now. */
  async #leave({ sandboxID, runID }: NewSandbox, handle: DriverHandle): Promise<void> {
    const { sandboxes, launcher, log } = this.#parts
    const isSaved = await sandboxes.saveHandle(sandboxID, runID, handle).catch(() => false)
    if (isSaved) return
    await launcher.stop(handle).catch((error) => {
      log.error({ sandboxID, err: error }, 'A sandbox that nobody owns could not be stopped.')
    })
  }

  /** The failed start left nothing behind; only the row is to be ended, unless a kill has it. */
  async #giveUp(row: NewSandbox): Promise<void> {
    const { sandboxes, clock, log } = this.#parts
    const { sandboxID, runID } = row
    const endReason = 'create_failed'
    try {
      await sandboxes.releaseClaim(row.teamID, sandboxID)
      const mine = await sandboxes.move({ sandboxID, runID, from: ['creating'] }, 'killing', { endReason })
      const changes = { endedAt: clock.now(), endReason } as const
      if (mine) await sandboxes.move({ sandboxID, runID, from: ['killing'] }, 'ended', changes)
    } catch (error) {
      log.error(
        { sandboxID, err: error },
        'The row of a failed create could not be ended; the reconciler ends it.',
      )
    }
  }

  async #earlierOutcome(sandboxID: string): Promise<Sandbox> {
    const outcome = this.#outcomes.get(sandboxID)
    if (outcome) return outcome
    const sandbox = await this.#createdElsewhere(sandboxID)
    if (!sandbox || sandbox.endReason === 'create_failed') throw errors.idempotencyOutcomeUnknown()
    return sandbox
  }

  /** Another node may be creating it at this moment: its row tells when that has come to an end. */
  async #createdElsewhere(sandboxID: string): Promise<Sandbox | undefined> {
    const { owners, clock } = this.#parts
    const giveUpAt = clock.now() + waitForOtherMs
    for (;;) {
      const row = await owners.findSandbox(sandboxID)
      if (row?.state !== 'creating') return row
      if (clock.now() >= giveUpAt) throw errors.sandboxIsBusy(sandboxID, row.state)
      await sleep(clock, lookAgainMs)
    }
  }
}

function newSandbox(
  team: Team,
  resolved: ResolvedTemplate,
  request: Omit<CreateRequest, 'options'> & { options: SandboxOptions },
  now: number,
  warm: WarmSandbox | undefined,
): NewSandbox {
  const { template, build, alias } = resolved
  const inherited = template.teamID === team.teamID ? build.sandboxEnvVars : undefined
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
    envVars: { ...inherited, ...request.envVars },
    options: request.options,
    timeoutMs: request.timeoutMs,
    createdAt: now,
    startedAt: now,
    endAt: now + request.timeoutMs,
  }
}
