/** One machine with its Warren: the world of its driver outlives the process, and the process may die at any await. */

import { closeForgottenRoutes, joinClusterDomain } from '../../src/app/cluster/cluster-domain.ts'
import { type Domain, joinDomain } from '../../src/app/domain/domain.ts'
import { type Loop, reconcileAtOnce, repair } from '../../src/app/domain/loops.ts'
import { repeat } from '../../src/app/domain/repeat.ts'
import type { AskWhyUnfit, HandOver } from '../../src/core/cluster/hand-over.ts'
import { Membership } from '../../src/core/cluster/membership.ts'
import { newNodeRunID } from '../../src/core/cluster/node.ts'
import type { MachineCapacity } from '../../src/core/sandbox/capacity/admission.ts'
import { RouteTable } from '../../src/core/sandbox/network/routes.ts'
import type { TemplateBuild } from '../../src/core/template/template.ts'
import { noAgent } from '../../src/drivers/driver-fixture.ts'
import type { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Stores } from '../../src/store/stores.ts'
import { vault } from '../../src/store/suite/rows.ts'
import { generousAdmission } from '../support/domain.ts'
import { FakeGate } from '../support/fake-gate.ts'
import { noBuilds, noEgress } from '../support/no-builds.ts'
import { notedLog } from './noted-log.ts'
import type { Note, ParkedCalls } from './parked-calls.ts'
import type { Plan } from './plan.ts'
import type { RateWatch } from './rate-watch.ts'
import { noLoad, sameFacts } from './same-reports.ts'
import { newSimulatedAgent } from './simulated-agent.ts'
import { newSimulatedBuilder } from './simulated-builds.ts'
import type { SimulatedDisks } from './simulated-disks.ts'
import { newSimulatedDriver } from './simulated-driver.ts'
import { beginnerOf, loopsOf, signOfLifeEveryMs, slowGuard } from './simulated-loops.ts'
import { minFreeMemoryMB, SimulatedMemory } from './simulated-memory.ts'
import { joinSimulatedStore } from './simulated-object-storage.ts'
import type { SimulatedPacks } from './simulated-packs.ts'
import { ProcessClock, type SimulatedTime, WallClock } from './simulated-time.ts'
import { joinSimulatedWebhooks, type SimulatedReceivers } from './simulated-webhooks.ts'
import type { WebhookWatch } from './webhook-watch.ts'

const bootRetryMs = 1000
export const rootFolder = '/root'

export type Wrap = <T extends object>(
  part: string,
  name: string,
  target: T,
  immediate?: readonly string[],
) => T

/** What one life of the process consists of. */
export type Core = ReturnType<SimulatedNode['wire']>

export class SimulatedNode {
  readonly name: string
  readonly wall: WallClock
  readonly world: FakeWorld
  readonly #calls: ParkedCalls
  readonly #stores: Stores
  readonly #plan: Plan
  readonly #trustsRecord: boolean
  readonly disks: SimulatedDisks
  readonly memory: SimulatedMemory
  readonly #freeBytes: () => number
  readonly #note: Note
  readonly #rates: RateWatch
  readonly #base: () => TemplateBuild
  #driver: FakeDriver | undefined
  readonly #newProcess: () => number
  process = 0
  core: Core | undefined
  /** Of the process that is there; undefined where no sandbox has rules by name. */
  gate: FakeGate | undefined
  clock: ProcessClock | undefined
  /** Set once the boot is done: from then on it takes requests. */
  isUp = false
  /** In elapsed milliseconds: until then it does not reach the store. */
  cutOffUntilMs = 0
  /** In elapsed milliseconds: until then no call of its process continues. */
  suspendedUntilMs = 0
  /** In elapsed milliseconds: until then it reaches no other node. */
  cutFromPeersUntilMs = 0
  /** What it runs since it was set back to an earlier moment. */
  readonly oldCopies = new Set<string>()
  /** Runs that may start although the operator has forgotten the node. None of them gets as far as its hand-over. */
  readonly oldStarts = new Set<string>()
  /** The last one that its process gave or began. */
  sign: { isUnderWay: boolean; atMs: number } | undefined
  /** The history is over. */
  isAtRest = false
  /** The process was begun before that, so that calls which it made first may still fail. */
  mayFailToStart = false
  /** Resolves when the process ends. */
  died: Promise<void> = Promise.resolve()
  #die = () => {}
  readonly #handOverFrom: (node: SimulatedNode) => HandOver
  readonly #askWhyUnfitFrom: (node: SimulatedNode) => AskWhyUnfit
  readonly #onUp: (node: SimulatedNode) => void
  readonly #onStarted: (sandboxID: string) => void
  readonly #onExitReported: (runID: string, process: number) => void
  /** The reconciler is asking to be told of exits. */
  #isWatchingExits = false
  /** It is down for good. */
  isGone = false
  /** The operator has said so. */
  isForgotten = false
  /** Begins a round of the reconcilers, unless one is under way. */
  beginRound: () => void = () => {}
  readonly #packs: SimulatedPacks | undefined
  readonly #webhooks: { watch: WebhookWatch; receivers: SimulatedReceivers } | undefined
  /** The layers on its disk. */
  readonly #layers = new Set<string>()
  /** Sandboxes in the middle of their start. */
  readonly starting = new Set<string>()

  constructor(parts: {
    name: string
    time: SimulatedTime
    world: FakeWorld
    calls: ParkedCalls
    stores: Stores
    /** The object store of the cluster that it is a node of; undefined: it knows of no other. */
    packs: SimulatedPacks | undefined
    /** Undefined: no team has any. */
    webhooks: { watch: WebhookWatch; receivers: SimulatedReceivers } | undefined
    plan: Plan
    /** A fault put back in by hand. */
    trustsRecord: boolean
    disks: SimulatedDisks
    freeBytes: () => number
    teamOf: (sandboxID: string) => string | undefined
    note: Note
    rates: RateWatch
    /** The template that every machine has. */
    base: () => TemplateBuild
    newProcess: () => number
    /** How it offers sandboxes to the others. */
    handOverFrom: (node: SimulatedNode) => HandOver
    askWhyUnfitFrom: (node: SimulatedNode) => AskWhyUnfit
    /** Called when its first look at what is there is done. */
    onUp: (node: SimulatedNode) => void
    /** Called when a sandbox of it has started. */
    onStarted: (sandboxID: string) => void
    /** Called when the reconciler of this process hears how a run died. */
    onExitReported: (runID: string, process: number) => void
  }) {
    this.name = parts.name
    this.wall = new WallClock(parts.time)
    this.world = parts.world
    this.#calls = parts.calls
    this.#stores = parts.stores
    this.#packs = parts.packs
    this.#webhooks = parts.webhooks
    this.#plan = parts.plan
    this.#trustsRecord = parts.trustsRecord
    this.disks = parts.disks
    this.memory = new SimulatedMemory(parts.world, parts.time, parts.teamOf)
    this.#freeBytes = parts.freeBytes
    this.#note = parts.note
    this.#rates = parts.rates
    this.#base = parts.base
    this.#newProcess = parts.newProcess
    this.#handOverFrom = parts.handOverFrom
    this.#askWhyUnfitFrom = parts.askWhyUnfitFrom
    this.#onUp = parts.onUp
    this.#onExitReported = parts.onExitReported
    this.#onStarted = parts.onStarted
  }

  /** A new process: it does what the server does and in the same order, with pauses of its own between rounds. */
  boot(): void {
    this.process = this.#newProcess()
    this.mayFailToStart = !this.isAtRest
    this.died = new Promise((resolve) => {
      this.#die = resolve
    })
    const clock = new ProcessClock(this.wall)
    this.clock = clock
    const core = this.wire(clock)
    this.core = core
    const times = { clock, log: notedLog(this.name, this.#note, this.#rates) }
    if (core.membership) this.#noteSigns(core.membership)
    const loops = loopsOf(this, core, this.#plan)
    this.beginRound = beginnerOf(loops.domain, times.log)
    const repeatAll = (all: readonly Loop[]) => {
      for (const loop of all) repeat(loop, times)
    }
    let hasJoined = false
    const join = async () => {
      await core.membership?.join()
      hasJoined = true
      core.membership?.keepAlive(signOfLifeEveryMs)
      repeatAll(loops.cluster)
      this.#isWatchingExits = true
      core.reconciler.watchExits()
      this.#isWatchingExits = false
    }
    let guards = this.#watchesMemory ? [slowGuard(this, core, times)] : []
    const start = async () => {
      if (!hasJoined) await join()
      await repair(core, { endedForSpace: [], guards, base: this.#base() })
      if (this.core !== core) return
      repeatAll(loops.domain)
      core.objectStorage?.uploader.nudge()
      this.#note(() => `${this.name} is up`)
      this.isUp = true
      this.#onUp(this)
    }
    const begin = () =>
      start().catch((error: Error) => {
        this.#note(() => `${this.name} could not start: ${error.message}`)
        if (!hasJoined) this.sign = undefined
        // The guards have begun.
        guards = []
        clock.after(bootRetryMs, () => void begin())
      })
    void begin()
  }

  /** Notes when it waits for the statements of a sign of life, which is all that a sign may wait for. */
  #noteSigns(membership: Membership): void {
    const renew = membership.renew.bind(membership)
    membership.renew = async () => {
      const sign = { isUnderWay: true, atMs: this.wall.time.elapsedMs }
      this.sign = sign
      await renew().finally(() => Object.assign(sign, { isUnderWay: false, atMs: this.wall.time.elapsedMs }))
    }
  }

  get isSuspended(): boolean {
    return this.wall.time.elapsedMs < this.suspendedUntilMs
  }

  get isCutFromPeers(): boolean {
    return this.wall.time.elapsedMs < this.cutFromPeersUntilMs
  }

  /** The processes of a sandbox end by themselves; the process that is there hears of it. */
  endProcesses(sandboxID: string): void {
    this.#driver?.crash(sandboxID)
  }

  /**
   * The process dies at whatever it awaits. The machine and what runs on it stay. True where statements are still on
   * their way to the database.
   */
  crash(): boolean {
    const hasLate = this.#calls.drop(this.process)
    void this.#driver?.close()
    this.clock?.stop()
    this.core = undefined
    this.sign = undefined
    this.isUp = false
    this.suspendedUntilMs = 0
    this.#die()
    return hasLate
  }

  /** The domain as the server joins it, over parked calls. */
  wire(clock: Clock) {
    const { process, world, disks } = this
    const plan = this.#plan
    const packs = this.wall.time.elapsedMs < plan.storeFromMs ? undefined : this.#packs
    const wrap: Wrap = (part, name, target, immediate) =>
      this.#calls.wrap(process, part, name, target, immediate)
    this.#driver = newSimulatedDriver({
      process,
      world,
      plan,
      calls: this.#calls,
      trustsRecord: this.#trustsRecord,
      starting: this.starting,
      isWatchingExits: () => this.#isWatchingExits,
      onStarted: this.#onStarted,
      onExitReported: (runID) => this.#onExitReported(runID, process),
    })
    const folders = {
      folder: (name: string) => name,
      names: async () => [...world.snapshots.keys()],
      bytesOf: async (names: readonly string[]) => names.length,
    }
    const stores = Object.entries(this.#stores).map(([name, store]) => [
      name,
      typeof store === 'function' ? store : wrap('store', name, store),
    ])
    const wrapped = Object.fromEntries(stores) as Stores
    disks.beforeReleased = () => this.#calls.parkOrFail(process, 'volumes')
    const routes = new RouteTable()
    this.gate = plan.hasGate ? new FakeGate() : undefined
    const log = notedLog(this.name, this.#note, this.#rates)
    const driver = wrap('driver', 'driver', this.#driver, ['endpoint', 'onExit', 'onAddressFree'])
    const domain = joinDomain(
      {
        ...noBuilds,
        ...noEgress,
        gate: this.gate,
        routes,
        clock,
        log,
        stores: wrapped,
        objectStorage:
          packs &&
          joinSimulatedStore({
            packs,
            stores: wrapped,
            readsParts: plan.arrivalMs !== undefined,
            onDisk: this.#layers,
            wrap,
            clock,
            log,
          }),
        driver,
        createBuilder: (tools) => newSimulatedBuilder(tools, this.#layers),
        agent: wrap(
          'agent',
          'agent',
          newSimulatedAgent(world, (runID) => this.oldStarts.delete(runID)),
        ),
        snapshotFolders: wrap('driver', 'folders', folders, ['folder']),
        volumeDisks: wrap('volumes', 'disks', disks, ['closeIdle', 'close']),
        agentProgram: noAgent,
        rootsOf: () => [rootFolder],
        freeBytes: async () => this.#freeBytes(),
        machine: plan.faults.machine ? wrap('machine', 'machine', this.#machine()) : this.#machine(),
      },
      {
        seed: 'seed',
        nodeID: this.name,
        quarantineMs: 7 * 24 * 3_600_000,
        minFreeBytes: 0,
        maxBuildLogBytes: 0,
        warmPool: { min: plan.warmSandboxes, memoryMB: undefined },
        admission: { ...generousAdmission, ...(this.#watchesMemory && { minFreeMemoryMB }) },
        volumes: { perTeam: 3, sizeMB: 64 },
      },
    )
    const membership = this.#newMembership(wrapped, routes, domain, clock)
    const ports = { stores: wrapped, driver, routes, clock, log }
    const cluster = joinClusterDomain({
      ports,
      domain,
      membership,
      handOver: this.#handOverFrom(this),
      askWhyUnfit: this.#askWhyUnfitFrom(this),
    })
    return {
      ...domain,
      ...cluster,
      routes,
      claims: wrapped.owners,
      membership: this.#packs && membership,
      webhooks:
        this.#webhooks &&
        joinSimulatedWebhooks({
          ...this.#webhooks,
          node: this,
          stores: this.#stores,
          wrap,
          vault,
          clock,
          log,
        }),
    }
  }

  get #watchesMemory(): boolean {
    return this.#plan.profile === 'used-up memory'
  }

  #machine(): MachineCapacity {
    return { cpuCount: 64, memoryMB: 1e6, availableMemoryMB: async () => this.memory.available }
  }

  #newMembership(stores: Stores, routes: RouteTable, domain: Domain, clock: Clock): Membership {
    const log = notedLog(this.name, this.#note, this.#rates)
    return new Membership({
      nodes: stores.nodes,
      clock,
      log,
      self: { nodeID: this.name, runID: newNodeRunID(this.name), address: this.name, facts: sameFacts },
      readLoad: async () => noLoad,
      onForgotten: async () => {
        await closeForgottenRoutes({ stores, routes })
        void reconcileAtOnce(domain, log)
      },
      // Each node has one process at a time.
      onReplaced: (problem) => {
        throw problem
      },
    })
  }
}
