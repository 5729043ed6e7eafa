/** Create: makes a running sandbox from a request, or ends its row and leaves nothing behind. */
import { sleep } from '../../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../../lib/ids.ts'
import { delayAfter } from '../../../lib/retry-delays.ts'
import { retryPassing } from '../../../lib/retry-passing.ts'
import type { Driver, DriverHandle } from '../../ports/driver.ts'
import type { Team } from '../../team/team.ts'
import type { TemplateCatalog } from '../../template/catalog.ts'
import { wantedGpus } from '../../template/gpu-count.ts'
import type { ResolvedTemplate, TemplateBuild } from '../../template/template.ts'
import type { VolumeService } from '../../volume/service.ts'
import type { WantedMount } from '../../volume/volume.ts'
import type { Admission } from '../capacity/admission.ts'
import { LaunchLeftover } from '../launch/launch-failure.ts'
import type { LaunchOptions, SandboxLauncher } from '../launch/launcher.ts'
import type { WarmSandbox } from '../launch/warm-sandbox.ts'
import type { SandboxEgress } from '../network/egress.ts'
import * as errors from '../row/errors.ts'
import { createdEntry } from '../row/life-entries.ts'
import { checkCreateTimeout } from '../row/lifetime.ts'
import type { NewSandbox, Sandbox, SandboxOptions } from '../row/sandbox.ts'
import type { EarlierRequest, IdempotencyClaim, SandboxFinder } from '../row/sandbox-store.ts'
import type { SandboxInTurn, SandboxTurns } from '../row/sandbox-turns.ts'
import { checkTexts } from '../row/text-limits.ts'
import type { WarmPool } from '../warm-pool/warm-pool.ts'
import type { CreateCounter } from './create-counter.ts'
import type { SandboxEnder } from './ender.ts'
import type { VerbParts } from './verb-parts.ts'

export type CreateRequest = {
  template: string
  timeoutMs: number
  metadata: Record<string, string>
  envVars: Record<string, string>
  /** Names by which the sandbox's volumes are looked up. */
  volumeMounts?: readonly WantedMount[]
  options: Omit<SandboxOptions, 'volumeMounts'>
  ownerPersonID?: string | undefined
}

/** How long to wait, and how often to look, while another node handles the same idempotency key. */
const waitForOtherMs = 60_000
const lookAgainMs = 200
/** Delays between tries to end the row of a create whose outcome is unknown. */
const endAgain = { firstMs: 1000, longestMs: 30_000 }

type CreatorParts = VerbParts & {
  owners: Pick<SandboxFinder, 'findSandbox'>
  driver: Pick<Driver, 'gpus'>
  admission: Admission
  createCounter: CreateCounter
  catalog: TemplateCatalog
  launcher: SandboxLauncher
  egress: SandboxEgress
  volumes: Pick<VolumeService, 'resolve'>
  warm: WarmPool
  ender: Pick<SandboxEnder, 'endInTurn'>
}

/** Why no row was inserted: a limit of the team, an earlier request with the same key, or a door that gave the attempt up. */
type NotInserted = Exclude<Awaited<ReturnType<SandboxTurns['insert']>>, { inserted: true }>

/** `isPooled`: the warm pool serves sandboxes of this kind. */
type StartOptions = LaunchOptions & { isPooled?: boolean }

/** `isKeyed`: the client has a key by which it finds the sandbox of an unknown outcome, so that stays. */
type KeyedOptions = LaunchOptions & { isKeyed: boolean }

/** `admit` waits until the machine has capacity for a boot. */
type LaunchWork = { signal: AbortSignal; admit: () => Promise<void> }

export class SandboxCreator {
  readonly #parts: CreatorParts
  readonly #closing = new AbortController()
  readonly #outcomes = new Map<string, Promise<Sandbox | NotInserted>>()
  /** Counted since this process started. */
  readonly counts = { successes: 0, fails: 0 }

  constructor(parts: CreatorParts) {
    this.#parts = parts
  }

  async create(team: Team, request: CreateRequest, claim?: IdempotencyClaim): Promise<Sandbox> {
    const { clock, catalog, launcher, egress, volumes, requireBudget, diskGuard, warm: pool } = this.#parts
    checkCreateTimeout(request.timeoutMs, team.limits)
    checkTexts(request)
    await egress.check(request.options)
    const resolved = await catalog.resolve(team, request.template)
    const { build } = resolved
    const gpuCount = this.#gpusFor(build, request)
    const mounts = await volumes.resolve(team, request.volumeMounts ?? [])
    requireBudget(team.teamID)
    diskGuard.require(team.teamID)
    // Neither a volume nor a GPU can be added to a running sandbox, or to a memory image that was taken without it.
    const isBare = mounts.length === 0 && gpuCount === (build.gpuCount ?? 0)
    const warm = isBare ? pool.acquire(build) : undefined
    const snapshot = isBare ? launcher.memoryOf(build) : undefined
    const options = { ...request.options, ...(mounts.length > 0 && { volumeMounts: mounts }) }
    const sized = { ...resolved, build: { ...build, gpuCount } }
    const row = newSandbox(team, sized, { ...request, options }, clock.now(), warm)
    return this.start(team, row, build, { warm, snapshot, isPooled: isBare }, claim)
  }

  /** Rejects if no sandbox of this machine can ever have as many GPUs. */
  #gpusFor(build: TemplateBuild, { metadata, envVars }: CreateRequest): number {
    const gpuCount = wantedGpus(build, metadata, envVars)
    const { gpus } = this.#parts.driver
    if (gpuCount > 0 && !gpus) throw errors.noGpusHere()
    if (gpus && gpuCount > gpus.mostPerSandbox) throw errors.tooManyGpus(gpuCount, gpus.mostPerSandbox)
    return gpuCount
  }

  /** Inserts the row within the team's limits, and starts the sandbox. */
  async start(
    team: Team,
    row: NewSandbox,
    build: TemplateBuild,
    options: StartOptions,
    claim?: IdempotencyClaim,
  ): Promise<Sandbox> {
    const { turns } = this.#parts
    const { sandboxID } = row
    // The turn begins before the row exists, so that nobody else judges a row that is being inserted.
    const outcome = turns.begin(sandboxID, (signal) =>
      this.#insertAndLaunch(team, row, build, { ...options, claim }, signal),
    )
    this.#outcomes.set(sandboxID, outcome)
    const result = await outcome.finally(() => this.#outcomes.delete(sandboxID))
    if ('sandboxID' in result) return result
    if ('exceeded' in result) throw errors.teamLimitReached(result.exceeded, team.limits)
    if ('isGivenUp' in result) throw errors.createGivenUp()
    return this.earlierOutcome(result.earlier, claim)
  }

  /** Returns the sandbox of the request that has the key of this claim, once it is created. */
  async earlierOutcome(
    { requestHash, sandboxID }: EarlierRequest,
    claim: Pick<IdempotencyClaim, 'requestHash'> | undefined,
  ): Promise<Sandbox> {
    if (claim && requestHash !== claim.requestHash) throw errors.idempotencyMismatch()
    const here = await this.#outcomes.get(sandboxID)
    const sandbox = here && 'sandboxID' in here ? here : await this.#createdElsewhere(sandboxID)
    if (!sandbox || sandbox.endReason === 'create_failed') throw errors.idempotencyOutcomeUnknown()
    return sandbox
  }

  async #insertAndLaunch(
    team: Team,
    row: NewSandbox,
    build: TemplateBuild,
    { isPooled, claim, warm, ...options }: StartOptions & { claim: IdempotencyClaim | undefined },
    signal: AbortSignal,
  ): Promise<Sandbox | NotInserted> {
    const { turns, warm: pool } = this.#parts
    const result = await turns.insert(row, team.limits, claim).catch((error) => {
      if (warm) pool.release(warm)
      throw error
    })
    if (!result.inserted) {
      if (warm) this.#returnWarm(warm, result)
      return result
    }
    if (isPooled) pool.recordCreate(build, warm !== undefined)
    try {
      const isKeyed = claim !== undefined && claim.key !== claim.attemptKey
      const running = await this.#launch(result.row, build, { ...options, warm, isKeyed }, signal)
      this.counts.successes++
      return running
    } catch (error) {
      this.counts.fails++
      throw error
    } finally {
      if (warm) pool.release(warm)
    }
  }

  /**
   * Returns the warm sandbox to the pool, because no row took it. If a row that names it may still appear, it
   * is released instead: nobody else may get it, and the reconciler removes it together with such a row.
   */
  #returnWarm(warm: WarmSandbox, { mayStillAppear }: NotInserted): void {
    const { warm: pool } = this.#parts
    if (mayStillAppear) pool.release(warm)
    else pool.putBack(warm)
  }

  /** The sandbox counts as starting until its row counts as running. */
  async #launch(
    row: SandboxInTurn,
    build: TemplateBuild,
    options: KeyedOptions,
    signal: AbortSignal,
  ): Promise<Sandbox> {
    let leave = () => {}
    const admit = async () => {
      leave = await this.#parts.admission.enter(row, signal)
    }
    return this.#launchAdmitted(row, build, options, { signal, admit }).finally(() => leave())
  }

  async #launchAdmitted(
    row: SandboxInTurn,
    build: TemplateBuild,
    options: KeyedOptions,
    work: LaunchWork,
  ): Promise<Sandbox> {
    const { signal } = work
    const { turns, createCounter, launcher, clock, appendLog, onRunning, log } = this.#parts
    const { sandboxID } = row
    const handle = await this.#launchAny(row, build, options, work).catch(async (error) => {
      log.error({ sandboxID, err: error }, 'create failed')
      // A kill that aborted this work has the row. A sandbox that could not be stopped keeps its row, and the
      // reconciler ends both.
      if (error instanceof LaunchLeftover) await this.#leave(row, error.handle)
      if (signal.aborted) throw errors.killedWhile(sandboxID, 'created')
      if (!(error instanceof LaunchLeftover)) await this.#giveUp(row)
      throw error
    })
    const startedAt = clock.now()
    const changes = { handle, startedAt, endAt: startedAt + row.timeoutMs }
    const running = await turns.transition(row, 'running', changes).catch(async (error) => {
      const isLeft = !options.isKeyed && !(await this.#undo(row, handle))
      throw isLeft ? errors.perhapsCreated(sandboxID, error) : error
    })
    if (!running) {
      // A kill came first: it waits for this outcome and then removes the started sandbox.
      await this.#leave(row, handle)
      throw await turns.overtaken(row, 'created')
    }
    appendLog(sandboxID, createdEntry(running))
    await launcher.open(running)
    onRunning(running)
    createCounter.count(row.templateID, startedAt)
    log.info({ sandboxID, teamID: row.teamID, templateID: row.templateID }, 'sandbox running')
    return running
  }

  /**
   * A warm sandbox runs already and needs no admission. If it turns out to be unusable, it is stopped and
   * another one boots.
   */
  async #launchAny(
    row: SandboxInTurn,
    build: TemplateBuild,
    { warm, snapshot }: LaunchOptions,
    { signal, admit }: LaunchWork,
  ): Promise<DriverHandle> {
    const { launcher, log } = this.#parts
    if (warm) {
      try {
        return await launcher.launch(row, build, { warm }, signal)
      } catch (error) {
        if (signal.aborted || error instanceof LaunchLeftover) throw error
        const { sandboxID } = row
        log.warn(
          { sandboxID, err: error },
          'A sandbox of the warm pool could not be used; another one boots.',
        )
      }
    }
    await admit()
    return launcher.launch(row, build, { snapshot }, signal)
  }

  /**
   * Nobody knows whether the row says that the sandbox runs, and the client is told that it could not be made. So the sandbox goes at once,
   * and its row as soon as the database answers. False if the sandbox could not be stopped: should this process die before it
   * is, the sandbox lives on.
   */
  async #undo({ sandboxID, runID }: SandboxInTurn, handle: DriverHandle): Promise<boolean> {
    const { turns, launcher, ender, clock, log } = this.#parts
    const isStopped = await launcher.stop(handle).then(
      () => true,
      (err) => {
        log.warn({ sandboxID, err }, 'What is left of a failed create is removed later.')
        return false
      },
    )
    const end = async (failures: number): Promise<void> => {
      await sleep(clock, delayAfter(failures, endAgain), this.#closing.signal)
      const ended = turns.acquire(sandboxID, async ({ row }) => {
        if (row?.runID !== runID || row.state === 'ended') return
        // The row may lack the handle of a sandbox that could not be stopped before.
        if (!row.handle) await turns.saveHandle(row, handle)
        await ender.endInTurn({ ...row, handle }, 'create_failed')
      })
      await ended.catch(() => end(failures + 1))
    }
    // A process that ends meanwhile leaves a row without a sandbox, which the reconciler of the next one ends.
    void end(1).catch(() => {})
    return isStopped
  }

  close(): void {
    this.#closing.abort(new Error('closing'))
  }

  /** Writes the handle into the row, for whoever ends the row. If that fails, stops the sandbox now. */
  async #leave(row: SandboxInTurn, handle: DriverHandle): Promise<void> {
    const { turns, launcher, log } = this.#parts
    const isSaved = await turns.saveHandle(row, handle).catch(() => false)
    if (isSaved) return
    await launcher.stop(handle).catch((error) => {
      log.error({ sandboxID: row.sandboxID, err: error }, 'A sandbox that nobody owns could not be stopped.')
    })
  }

  /** Ends the row, unless a kill has it. The failed start left nothing else behind. */
  async #giveUp(row: SandboxInTurn): Promise<void> {
    const { sandboxes, turns, clock, log } = this.#parts
    const { sandboxID, teamID } = row
    const endReason = 'create_failed'
    try {
      await sandboxes.releaseClaim(teamID, sandboxID)
      const mine = await turns.transition(row, 'killing', { endReason })
      if (mine) await turns.transition(mine, 'ended', { endedAt: clock.now(), endReason })
    } catch (error) {
      log.error(
        { sandboxID, err: error },
        'The row of a failed create could not be ended; the reconciler ends it.',
      )
    }
  }

  /** Another node may be creating the sandbox at this moment: its row tells when that is over. */
  async #createdElsewhere(sandboxID: string): Promise<Sandbox | undefined> {
    const { owners, clock } = this.#parts
    const giveUpAt = clock.now() + waitForOtherMs
    for (;;) {
      // The earlier request is known to have made it, so an answer that does not come is no failure of the create.
      const row = await retryPassing(clock, () => owners.findSandbox(sandboxID)).catch((cause) => {
        throw errors.perhapsCreated(sandboxID, cause)
      })
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
    ...(build.gpuCount && { gpuCount: build.gpuCount }),
    ...(request.ownerPersonID !== undefined && { ownerPersonID: request.ownerPersonID }),
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
