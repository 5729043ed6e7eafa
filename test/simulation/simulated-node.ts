/** One machine with its Warren: the world of its driver outlives the process, and the process may die at any await. */

import { closeForgottenRoutes, joinClusterDomain } from '../../src/app/cluster-domain.ts'
import { joinDomain } from '../../src/app/domain.ts'
import type { AskWhyUnfit, HandOver } from '../../src/core/cluster/hand-over.ts'
import { Membership } from '../../src/core/cluster/membership.ts'
import { newNodeRunID } from '../../src/core/cluster/node.ts'
import type { MachineCapacity } from '../../src/core/sandbox/capacity/admission.ts'
import { RouteTable } from '../../src/core/sandbox/network/routes.ts'
import type { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import { allDone } from '../../src/lib/all-done.ts'
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
import { minFreeMemoryMB, SimulatedMemory } from './simulated-memory.ts'
import { joinSimulatedStore } from './simulated-object-storage.ts'
import type { SimulatedPacks } from './simulated-packs.ts'
import { ProcessClock, type SimulatedTime, WallClock } from './simulated-time.ts'
import { joinSimulatedWebhooks, type SimulatedReceivers } from './simulated-webhooks.ts'
import type { WebhookWatch } from './webhook-watch.ts'

const reconcileEveryMs = 60_000
const bootRetryMs = 1000
/** Less often than a real node, so that a history does not consist of looks at what is due. */
const sendEveryMs = 5000
const sendAtRestMs = 20_000
/** Less often than a real node. */
const [lookEveryMs, lookAtRestMs] = [500, 5000]
/** Less often than a real node, and often enough for its lease. */
const signOfLifeEveryMs = 6000
/** Less often than a real node: every round of it reads the rows of departures. */
const drainAtRestMs = 30_000
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
  stillUntilMs = 0
  /** In elapsed milliseconds: until then it reaches no other node. */
  cutFromPeersUntilMs = 0
  /** What it runs since it was set back to an earlier moment. */
  readonly oldCopies = new Set<string>()
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
  readonly #onExitTold: (runID: string, process: number) => void
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
    newProcess: () => number
    /** How it offers sandboxes to the others. */
    handOverFrom: (node: SimulatedNode) => HandOver
    askWhyUnfitFrom: (node: SimulatedNode) => AskWhyUnfit
    /** Called when its first look at what is there is done. */
    onUp: (node: SimulatedNode) => void
    /** Called when a sandbox of it has started. */
    onStarted: (sandboxID: string) => void
    /** Called when the reconciler of this process hears how a run died. */
    onExitTold: (runID: string, process: number) => void
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
    this.#newProcess = parts.newProcess
    this.#handOverFrom = parts.handOverFrom
    this.#askWhyUnfitFrom = parts.askWhyUnfitFrom
    this.#onUp = parts.onUp
    this.#onExitTold = parts.onExitTold
    this.#onStarted = parts.onStarted
  }

  /** A new process: it reconciles, then takes requests, then reconciles every minute. */
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
    this.#isWatchingExits = true
    core.reconciler.watchExits()
    this.#isWatchingExits = false
    const { membership, objectStorage, reconciler, drainer, volumes, builds, webhooks, memoryGuard } = core
    const attempt = (job: string, work: () => Promise<void>) =>
      work().then(
        () => true,
        (error: Error) => {
          this.#note(() => `${this.name} could not ${job}: ${error.message}`)
          return false
        },
      )
    const repeat = (job: string, everyMs: () => number, work: () => Promise<void>) => {
      const again = () => clock.after(everyMs(), () => void attempt(job, work).then(again))
      again()
    }
    let round: Promise<unknown> | undefined
    const reconcile = async () => {
      round ??= allDone([
        reconciler.run(),
        this.#plan.hasVolumes ? volumes.reconcile() : undefined,
        this.#plan.hasBuilds ? builds.reconcile() : undefined,
        this.isUp ? objectStorage?.uploader.run() : undefined,
      ]).finally(() => {
        round = undefined
      })
      await round
    }
    this.beginRound = () => void attempt('reconcile', reconcile)
    const drainEvery = () => (this.isAtRest ? drainAtRestMs : signOfLifeEveryMs)
    const lookEvery = () => (this.isAtRest ? lookAtRestMs : lookEveryMs)
    const sendEvery = () => (this.isAtRest ? sendAtRestMs : sendEveryMs)
    const start = async () => {
      if (this.#watchesMemory) await memoryGuard.look()
      const joined = !membership || (await attempt('join', () => membership.join()))
      if (!joined || !(await attempt('reconcile', reconcile)))
        return void clock.after(bootRetryMs, () => void start())
      if (this.core !== core) return
      this.#note(() => `${this.name} is up`)
      this.isUp = true
      this.#onUp(this)
      repeat('reconcile', () => reconcileEveryMs, reconcile)
      if (this.#watchesMemory) repeat('look at the memory', lookEvery, () => memoryGuard.look())
      if (membership)
        repeat(
          'give a sign of life',
          () => signOfLifeEveryMs,
          () => membership.renew(),
        )
      if (webhooks) repeat('send events to webhooks', sendEvery, () => webhooks.dispatcher.run())
      if (drainer) repeat('move sandboxes off this node', drainEvery, () => drainer.run())
    }
    void start()
  }

  get isStill(): boolean {
    return this.wall.time.elapsedMs < this.stillUntilMs
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
    this.isUp = false
    this.stillUntilMs = 0
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
      onExitTold: (runID) => this.#onExitTold(runID, process),
    })
    const folders = {
      folder: (name: string) => name,
      names: async () => [...world.snapshots.keys()],
      roomOf: async (names: readonly string[]) => names.length,
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
        agent: wrap('agent', 'agent', newSimulatedAgent(world)),
        snapshotFolders: wrap('driver', 'folders', folders, ['folder']),
        volumeDisks: wrap('volumes', 'disks', disks, ['closeIdle', 'close']),
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
        warmPool: { least: plan.warmSandboxes, memoryMB: undefined },
        admission: { ...generousAdmission, ...(this.#watchesMemory && { minFreeMemoryMB }) },
        volumes: { perTeam: 3, sizeMB: 64 },
      },
    )
    const membership = this.#newMembership(wrapped, routes, clock)
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

  #newMembership(stores: Stores, routes: RouteTable, clock: Clock): Membership {
    return new Membership({
      nodes: stores.nodes,
      clock,
      log: notedLog(this.name, this.#note, this.#rates),
      self: { nodeID: this.name, runID: newNodeRunID(this.name), address: this.name, facts: sameFacts },
      readLoad: async () => noLoad,
      onForgotten: async () => {
        await closeForgottenRoutes({ stores, routes })
        this.beginRound()
      },
      // Each node has one process at a time.
      onReplaced: (problem) => {
        throw problem
      },
    })
  }
}
