/** Starts the sandbox of a row and hands it over to its owner. Knows no states and no limits. */
import { allDone } from '../../../lib/all-done.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import { type AgentIdentity, type AgentPort, agentPort, type OtherNetworks } from '../../ports/agent.ts'
import type { AgentProgram } from '../../ports/agent-program.ts'
import {
  canFreeze,
  type Driver,
  type DriverHandle,
  type RestoreSpec,
  type SandboxSpec,
  startOf,
} from '../../ports/driver.ts'
import { openRules } from '../../ports/egress.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { VolumeService } from '../../volume/service.ts'
import type { VolumeMount } from '../../volume/volume.ts'
import type { SandboxEgress } from '../network/egress.ts'
import { ingressOf, type Route, type RouteTable } from '../network/routes.ts'
import type { NewSandbox, Sandbox, SandboxOptions } from '../row/sandbox.ts'
import type { SandboxInTurn } from '../row/sandbox-turns.ts'
import type { SandboxTokens } from '../row/tokens.ts'
import type { BytesSource } from '../snapshots/bytes-source.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'
import { exitSignal } from './exit-signal.ts'
import { asCreateError, LaunchLeftover } from './launch-failure.ts'
import { runStartCommand } from './start-command.ts'
import type { WarmSandbox } from './warm-sandbox.ts'

const agentReadyWithinMs = 30_000
/** An agent that does not answer within this time is stuck, not only busy. */
export const agentAnswersWithinMs = 10_000

export type LauncherParts = {
  driver: Driver
  agent: AgentPort
  agentProgram: AgentProgram
  routes: RouteTable
  tokens: SandboxTokens
  snapshots: SnapshotStore
  egress: SandboxEgress
  volumes: Pick<VolumeService, 'acquire'>
  /** Authorities that every sandbox trusts, in PEM form. */
  extraCA: string | undefined
  clock: Clock
  /**
   * Returns the folder of a build's root filesystem on this machine, and the layers below it, the nearest
   * first.
   */
  rootsOf: (build: TemplateBuild) => [root: string, ...lower: string[]]
  /** Fetches files that are not on this machine; undefined without an object store. */
  fetcher: Pick<BytesSource, 'fetchBuild'> | undefined
}

/** A snapshot to start from. */
export type SnapshotRef = {
  name: string
  memory: boolean
  /** False: the sandbox takes over the files, so that the snapshot is used up. */
  keepSnapshot: boolean
  /** The sandbox that the snapshot was taken of: the agent in its memory has that sandbox's token. */
  sandboxID: string
}

type RunIdentity = Pick<SandboxSpec, 'sandboxID' | 'runID'>

type BootSpec = Omit<SandboxSpec, keyof RunIdentity | 'egress' | 'disposable' | 'background'>

/** The parts of a row that a start needs. */
type LaunchRow = Pick<
  NewSandbox,
  'sandboxID' | 'runID' | 'teamID' | 'templateID' | 'envVars' | 'gpuCount'
> & {
  options: Pick<SandboxOptions, 'allowInternetAccess' | 'network' | 'volumeMounts'> & { secure?: boolean }
}

export type LaunchOptions = {
  /** A running sandbox that only needs its owner. */
  warm?: WarmSandbox | undefined
  /** Undefined: the sandbox boots on the files of its build. */
  snapshot?: SnapshotRef | undefined
  /** True if the sandbox may be removed when a crash leaves it behind. */
  disposable?: boolean
}

/** The owner that the agent is told about; without one, the sandbox waits for its owner. */
type AgentOwner = Pick<LaunchRow, 'sandboxID' | 'templateID' | 'envVars'> & {
  options?: LaunchRow['options']
  hasOwner?: boolean
}

export class SandboxLauncher {
  readonly #parts: LauncherParts

  constructor(parts: LauncherParts) {
    this.#parts = parts
    parts.driver.onAddressFree(({ sandboxID, handle }) => {
      parts.routes.removeStart(sandboxID, startOf(handle))
      parts.egress.forget(handle)
    })
  }

  /**
   * Boots a sandbox of the build without an owner: its agent has the token that belongs to its ID, and its
   * service runs with the template's variables and an open network. Rejects with nothing left behind.
   */
  async boot(build: TemplateBuild, identity: RunIdentity, signal: AbortSignal): Promise<DriverHandle> {
    const { driver } = this.#parts
    const memory = await this.#fetch(build, this.memoryOf(build), signal)
    const spec = {
      ...this.#specOf(build, memory),
      ...identity,
      egress: openRules,
      disposable: true,
      background: true,
    }
    const alive = exitSignal(driver, identity, signal)
    let handle: DriverHandle | undefined
    try {
      handle = await driver.start(spec, signal)
      await this.#bringUp(identity.sandboxID, build, handle, memory, alive.signal)
      return handle
    } catch (error) {
      if (handle) await this.#stopAfter(error, handle)
      throw error
    } finally {
      alive.close()
    }
  }

  /** The snapshot from which sandboxes of the build are restored with their service. Undefined: they boot. */
  memoryOf({ snapshot }: TemplateBuild): SnapshotRef | undefined {
    if (!snapshot?.memory || !this.#parts.snapshots.canTakeMemory) return undefined
    return { ...snapshot, keepSnapshot: true }
  }

  /** Returns the snapshot to start from, without its memory if that cannot be used here. */
  async #fetch(
    build: TemplateBuild,
    snapshot: SnapshotRef | undefined,
    signal: AbortSignal,
  ): Promise<SnapshotRef | undefined> {
    const { fetcher } = this.#parts
    const isOfBuild = snapshot !== undefined && snapshot.name === build.snapshot?.name
    const withSnapshot = snapshot === undefined || isOfBuild
    const brought = await fetcher?.fetchBuild(build, { withSnapshot }, signal)
    if (!isOfBuild || !snapshot.memory) return snapshot
    return brought?.memory === false || !(await this.#hasSizeOf(build, snapshot)) ? undefined : snapshot
  }

  /**
   * Restored processes have the size with which their snapshot was taken. Earlier Warrens took some snapshots
   * with another size.
   */
  async #hasSizeOf(build: TemplateBuild, { name }: SnapshotRef): Promise<boolean> {
    const { cpuCount, memoryMB, gpuCount = 0 } = build
    const size = (await this.#parts.snapshots.find(name))?.size
    if (!size) return true
    return size.cpuCount === cpuCount && size.memoryMB === memoryMB && (size.gpuCount ?? 0) === gpuCount
  }

  #specOf(build: TemplateBuild, snapshot: SnapshotRef | undefined): BootSpec {
    const [rootFolder, ...lowerFolders] = this.#parts.rootsOf(build)
    const from = snapshot ?? (build.snapshot && { ...build.snapshot, memory: false, keepSnapshot: true })
    return {
      rootFolder,
      agent: this.#parts.agentProgram,
      ...(lowerFolders.length > 0 && { lowerFolders }),
      cpuCount: build.cpuCount,
      memoryMB: build.memoryMB,
      diskMB: build.diskMB,
      ...(from && { fromSnapshot: this.#restoreSpec(from) }),
    }
  }

  /**
   * Starts the sandbox, unless a running one is passed in, and hands it over to its owner. Calls `onStart`
   * with the handle before the hand-over. Rejects with nothing left behind, or with a `LaunchLeftover`.
   */
  async launch(
    row: LaunchRow,
    build: TemplateBuild,
    { warm, snapshot: wanted, disposable = false }: LaunchOptions,
    signal: AbortSignal,
    onStart?: (handle: DriverHandle) => Promise<void>,
  ): Promise<DriverHandle> {
    const { driver, egress } = this.#parts
    const { sandboxID, runID } = row
    const snapshot = warm
      ? undefined
      : await this.#fetch(build, wanted, signal).catch((error) => {
          throw asCreateError(error)
        })
    // The service of a template starts before the sandbox has an owner, as in the warm pool.
    const isAhead = warm !== undefined || (snapshot === undefined && build.startCmd !== null)
    // Watched from before the start, so that nothing waits for a sandbox that dies at once.
    const alive = exitSignal(driver, row, signal)
    let handle = warm?.handle
    try {
      const rules = isAhead ? openRules : egress.rulesOf(row.options)
      const { gpuCount = 0 } = row
      const spec = { ...this.#specOf(build, snapshot), gpuCount, sandboxID, runID, egress: rules, disposable }
      handle ??= await this.#start(spec, row.options.volumeMounts, signal)
      egress.noteRules(handle, rules)
      await allDone([onStart?.(handle), warm && this.#adopt(warm, signal)])
      if (!warm && isAhead) await this.#bringUp(sandboxID, build, handle, undefined, alive.signal)
      await this.#limit(handle, row.options)
      egress.admit(row, handle)
      const knownAs = isAhead ? sandboxID : snapshot?.memory ? snapshot.sandboxID : undefined
      await this.handOver(row, build, handle, knownAs, alive.signal)
      await egress.trust(row, handle, alive.signal)
      const needsService = build.startCmd && !isAhead && !snapshot?.memory
      if (needsService) await this.#startService(sandboxID, build, handle, alive.signal)
      return handle
    } catch (error) {
      const failure = asCreateError(alive.signal.aborted ? alive.signal.reason : error)
      if (handle) await this.#stopAfter(failure, handle)
      throw failure
    } finally {
      alive.close()
    }
  }

  async #start(
    spec: SandboxSpec,
    volumeMounts: readonly VolumeMount[] = [],
    signal: AbortSignal,
  ): Promise<DriverHandle> {
    const { driver, volumes } = this.#parts
    if (volumeMounts.length === 0) return driver.start(spec, signal)
    const { mounts, release } = await volumes.acquire(volumeMounts)
    return driver.start({ ...spec, mounts }, signal).finally(release)
  }

  async #adopt({ handle, freeze }: WarmSandbox, signal: AbortSignal): Promise<void> {
    await this.#parts.driver.adopt(handle)
    if (!freeze) return
    await freeze
    await this.thaw(handle, signal)
  }

  /** Does everything that needs no owner: gives the agent its token and starts the template's service. */
  async #bringUp(
    sandboxID: string,
    build: TemplateBuild,
    handle: DriverHandle,
    memory: SnapshotRef | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const nobody = { sandboxID, templateID: build.templateID, envVars: {}, hasOwner: false }
    await this.handOver(nobody, build, handle, memory?.sandboxID, signal)
    if (build.startCmd && !memory) await this.#startService(sandboxID, build, handle, signal)
  }

  async #stopAfter(failure: unknown, handle: DriverHandle): Promise<void> {
    await this.#parts.driver.stop(handle).catch((stopFailure) => {
      throw new LaunchLeftover(handle, asCreateError(failure), stopFailure)
    })
  }

  /**
   * Gives the agent its token, variables and defaults. `knownAs` is the sandbox whose token it already has,
   * if any.
   */
  async handOver(
    row: AgentOwner,
    build: TemplateBuild,
    handle: DriverHandle,
    knownAs: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { driver, agent, tokens } = this.#parts
    const currentToken = knownAs === undefined ? {} : { currentToken: tokens.agent(knownAs) }
    const options = { deadlineMs: agentReadyWithinMs, signal, ...currentToken }
    await agent.initialize(driver.endpoint(handle, agentPort), this.#identityOf(row, build), options)
  }

  #restoreSpec({
    name,
    memory,
    keepSnapshot,
  }: Pick<SnapshotRef, 'name' | 'memory' | 'keepSnapshot'>): RestoreSpec {
    return { folder: this.#parts.snapshots.folder(name), memory, keepSnapshot }
  }

  /** Runs the start command of a sandbox that booted: it has no service from memory. */
  async #startService(
    sandboxID: string,
    build: TemplateBuild,
    handle: DriverHandle,
    signal: AbortSignal,
  ): Promise<void> {
    const { driver, agent, tokens, clock } = this.#parts
    const endpoint = driver.endpoint(handle, agentPort)
    await runStartCommand(agent, endpoint, tokens.agent(sandboxID), build, { clock, signal })
  }

  /** False if the agent did not answer in time, or if the signal aborted first. */
  answers(handle: DriverHandle, signal: AbortSignal): Promise<boolean> {
    const { driver, agent } = this.#parts
    return agent.isHealthy(driver.endpoint(handle, agentPort), { withinMs: agentAnswersWithinMs, signal })
  }

  /** Whether a process has its own network namespace: a snapshot of the memory could not be restored whole. */
  async findOtherNetworks({ sandboxID, handle }: Sandbox, signal: AbortSignal): Promise<OtherNetworks> {
    const { driver, agent, tokens } = this.#parts
    const options = { withinMs: agentAnswersWithinMs, signal }
    return agent.findOtherNetworks(driver.endpoint(handle!, agentPort), tokens.agent(sandboxID), options)
  }

  async thaw(handle: DriverHandle, signal?: AbortSignal): Promise<void> {
    const { driver } = this.#parts
    if (!canFreeze(driver)) throw new AppError('internal', `${driver.name} cannot thaw a sandbox`)
    await driver.thaw(handle, signal)
  }

  /**
   * Thaws a frozen sandbox for its owner, with the egress policy of its row applied before its first step.
   */
  async goOn({ handle, options }: SandboxInTurn, signal: AbortSignal): Promise<void> {
    await this.#limit(handle!, options)
    await this.thaw(handle!, signal)
  }

  /** Does nothing if the rules are known to be applied. */
  async #limit(handle: DriverHandle, options: LaunchRow['options']): Promise<void> {
    const { egress } = this.#parts
    if (!egress.isProved(handle, options)) await egress.limit(handle, options)
  }

  #identityOf(row: AgentOwner, build: TemplateBuild): AgentIdentity {
    const { extraCA } = this.#parts
    return {
      accessToken: this.#parts.tokens.agent(row.sandboxID),
      secure: row.options?.secure ?? true,
      envVars: {
        ...build.envVars,
        ...row.envVars,
        E2B_SANDBOX: 'true',
        E2B_SANDBOX_ID: row.sandboxID,
        E2B_TEMPLATE_ID: row.templateID,
      },
      defaultUser: build.defaultUser,
      defaultWorkdir: build.defaultWorkdir,
      ...(extraCA !== undefined && { caBundle: extraCA }),
      ...(row.hasOwner === false && { hasOwner: false }),
    }
  }

  /** True if a running sandbox has its route and its egress policy is known to be applied. */
  isOpen({ sandboxID, runID, handle, options }: Sandbox): boolean {
    const { routes, egress } = this.#parts
    return routes.get(sandboxID)?.runID === runID && handle !== null && egress.isProved(handle, options)
  }

  /** Adds the route to a running sandbox after its egress policy is applied. */
  async open(row: SandboxInTurn): Promise<void> {
    const { driver, routes, tokens, egress } = this.#parts
    const { sandboxID, runID, teamID, handle, state } = row
    if (!handle || state !== 'running')
      throw new AppError('internal', `Sandbox "${sandboxID}" is ${state} and cannot have a route`)
    await this.#limit(handle, row.options)
    const route: Route = {
      sandboxID,
      runID,
      teamID,
      start: startOf(handle),
      endpoint: (port) => driver.endpoint(handle, port),
      agentToken: tokens.agent(sandboxID),
      trafficToken: tokens.trafficOf(row),
      hostToken: tokens.hostOf(row),
      ...ingressOf(row.options.network),
    }
    routes.set(route)
    egress.admit(row, handle)
  }

  /** Cuts open connections before the processes end or freeze, so that no client sees a clean end. */
  closeRoute({ sandboxID, runID, handle }: Pick<Sandbox, 'sandboxID' | 'runID' | 'handle'>): void {
    this.#parts.routes.remove(sandboxID, runID)
    if (handle) this.#parts.egress.close(handle)
  }

  /** The same for a sandbox that moves to another node, after a moment in which requests under way may finish. */
  async closeRouteToDepart({ sandboxID, runID, handle }: Sandbox): Promise<void> {
    await this.#parts.routes.depart(sandboxID, runID)
    if (handle) this.#parts.egress.close(handle)
  }

  async stop(handle: DriverHandle): Promise<void> {
    await this.#parts.driver.stop(handle)
  }
}
