/** One machine with its Warren: the world of its driver outlives the process, and the process may die at any await. */

import { closeForgottenRoutes, joinClusterDomain } from '../../src/app/cluster-domain.ts'
import { joinDomain } from '../../src/app/domain.ts'
import type { AgentPort } from '../../src/core/agent.ts'
import type { HandOver } from '../../src/core/cluster/hand-over.ts'
import { Membership } from '../../src/core/cluster/membership.ts'
import type { NodeFacts, NodeLoad } from '../../src/core/cluster/node.ts'
import { RouteTable } from '../../src/core/sandbox/routes.ts'
import type { Stores } from '../../src/core/stores.ts'
import { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import { AppError } from '../../src/lib/app-error.ts'
import type { Clock } from '../../src/lib/clock.ts'
import { newUUID } from '../../src/lib/ids.ts'
import type { Log } from '../../src/lib/log.ts'
import { generousAdmission } from '../support/domain.ts'
import { FakeVolumeDisks } from '../support/fake-volumes.ts'
import { noBuilds, noEgress } from '../support/no-builds.ts'
import type { Note, ParkedCalls } from './parked-calls.ts'
import { noLayers, type SimulatedPacks } from './simulated-packs.ts'
import { ProcessClock, type SimulatedTime, WallClock } from './simulated-time.ts'

const reconcileEveryMs = 60_000
const bootRetryMs = 1000
/** Less often than a real node, and often enough for its lease. */
const signOfLifeEveryMs = 6000
/** When nothing goes wrong any more, nobody asks who is away. */
const signOfLifeAtRestMs = 60_000
export const rootFolder = '/root'
/** Where programs in a sandbox write, in its memory and in its files. */
export const writtenKey = 'written'
const agentTokenKey = 'agent token'

export type NodeOptions = { snapshotMemory: boolean; warmSandboxes: number }

/** All machines are alike, and placement is not simulated. */
const sameFacts: NodeFacts = {
  ...{ version: '1', isolation: 'gvisor', cpuCount: 64, memoryMB: 1e6 },
  cpu: { architecture: 'x64', family: '1', model: '1', modelName: 'simulated', features: [] },
}
const noLoad: NodeLoad = {
  ...{ freeCPU: 64, freeMemoryMB: 1e6, availableMemoryMB: 1e6, allocatedCPU: 0, allocatedMemoryMB: 0 },
  ...{ sandboxes: 0, starting: 0, createSuccesses: 0, createFails: 0, cpuPercent: 0 },
  disk: { mountPoint: '/', filesystemType: 'ext4', device: 'disk', usedBytes: 0, totalBytes: 1e12 },
  ...{ warmTemplates: [], buildsAtHand: [] },
}

/** What one life of the process consists of. */
export type Core = ReturnType<SimulatedNode['wire']>

export class SimulatedNode {
  readonly name: string
  readonly wall: WallClock
  readonly world: FakeWorld
  readonly #calls: ParkedCalls
  readonly #stores: Stores
  readonly #options: NodeOptions
  readonly #note: Note
  #driver: FakeDriver | undefined
  readonly #newProcess: () => number
  process = 0
  core: Core | undefined
  clock: ProcessClock | undefined
  /** Set once the boot is done: from then on it takes requests. */
  isUp = false
  /** In elapsed milliseconds: until then it does not reach the store. */
  cutOffUntilMs = 0
  /** In elapsed milliseconds: until then nothing of its process goes on. */
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
  readonly #onUp: (node: SimulatedNode) => void
  readonly #packs: SimulatedPacks | undefined
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
    options: NodeOptions
    note: Note
    newProcess: () => number
    /** How it offers sandboxes to the others. */
    handOverFrom: (node: SimulatedNode) => HandOver
    /** Called when its first look at what is there is done. */
    onUp: (node: SimulatedNode) => void
  }) {
    this.name = parts.name
    this.wall = new WallClock(parts.time)
    this.world = parts.world
    this.#calls = parts.calls
    this.#stores = parts.stores
    this.#packs = parts.packs
    this.#options = parts.options
    this.#note = parts.note
    this.#newProcess = parts.newProcess
    this.#handOverFrom = parts.handOverFrom
    this.#onUp = parts.onUp
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
    core.reconciler.watchExits()
    const { membership, archive, reconciler, drainer } = core
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
    const soon = () => (this.isAtRest ? signOfLifeAtRestMs : signOfLifeEveryMs)
    const start = async () => {
      const joined = !membership || (await attempt('join', () => membership.join()))
      if (!joined || !(await attempt('reconcile', () => reconciler.run())))
        return void clock.after(bootRetryMs, () => void start())
      if (this.core !== core) return
      this.#note(() => `${this.name} is up`)
      this.isUp = true
      this.#onUp(this)
      repeat(
        'reconcile',
        () => reconcileEveryMs,
        () => reconciler.run(),
      )
      if (membership) repeat('give a sign of life', soon, () => membership.renew())
      if (drainer) repeat('move sandboxes off this node', soon, () => drainer.run())
      if (archive)
        repeat(
          'archive',
          () => reconcileEveryMs,
          () => archive.archiver.run(),
        )
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

  /** The domain as the server joins it, over calls that stand still. */
  wire(clock: Clock) {
    const { process, world } = this
    const wrap = <T extends object>(part: string, name: string, target: T, immediate?: readonly string[]) =>
      this.#calls.wrap(process, part, name, target, immediate)
    this.#driver = this.#newDriver(process)
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
    const routes = new RouteTable()
    const log = this.#log()
    const driver = wrap('driver', 'driver', this.#driver, ['endpoint', 'onExit'])
    const domain = joinDomain(
      {
        ...{ ...noBuilds, ...noEgress, routes, clock, log },
        stores: wrapped,
        archive: this.#packs && {
          objects: wrap('objects', 'objects', this.#packs, ['list']),
          packs: wrap('objects', 'packs', this.#packs, ['list']),
          layers: noLayers,
        },
        driver,
        agent: wrap('agent', 'agent', this.#newAgent(this.#driver)),
        snapshotFolders: wrap('driver', 'folders', folders, ['folder']),
        volumeDisks: new FakeVolumeDisks(),
        rootsOf: () => [rootFolder],
        freeBytes: async () => 1e12,
        machine: { cpuCount: 64, memoryMB: 1e6, availableMemoryMB: async () => 1e6 },
      },
      {
        ...{ seed: 'seed', nodeID: this.name, quarantineMs: 7 * 24 * 3_600_000 },
        ...{ minFreeBytes: 0, maxBuildLogBytes: 0 },
        warmPool: { least: this.#options.warmSandboxes, memoryMB: undefined },
        admission: generousAdmission,
        volumes: { perTeam: 0, sizeMB: 64 },
      },
    )
    const membership = this.#newMembership(wrapped, routes, clock)
    const ports = { stores: wrapped, driver, routes, clock, log }
    const cluster = joinClusterDomain({ ports, domain, membership, handOver: this.#handOverFrom(this) })
    return {
      ...{ ...domain, ...cluster, routes, claims: wrapped.owners },
      membership: this.#packs && membership,
    }
  }

  #newMembership(stores: Stores, routes: RouteTable, clock: Clock): Membership {
    return new Membership({
      ...{ nodes: stores.nodes, clock, log: this.#log() },
      self: { nodeID: this.name, runID: newUUID(), address: this.name, facts: sameFacts },
      readLoad: async () => noLoad,
      onForgotten: () => closeForgottenRoutes({ stores, routes }),
    })
  }

  /** Each step of a start, a stop and a snapshot stands still as well. */
  #newDriver(process: number): FakeDriver {
    const driver = new FakeDriver({ world: this.world, snapshotMemory: this.#options.snapshotMemory })
    const park = () => this.#calls.park(process)
    const parkOrFail = () => this.#calls.parkOrFail(process, 'driver')
    driver.beforeStarted = async ({ sandboxID }) => {
      this.starting.add(sandboxID)
      await parkOrFail().finally(() => this.starting.delete(sandboxID))
    }
    driver.beforeStopped = park
    const onExit = driver.onExit.bind(driver)
    driver.onExit = (listener) => onExit((exit) => void park().then(() => listener(exit)))
    driver.beforeRemoved = park
    driver.beforeSnapshot = parkOrFail
    return driver
  }

  /** Answers exactly as long as its sandbox runs, and keeps its token in memory. */
  #newAgent(driver: FakeDriver): AgentPort {
    const at = (host: string) =>
      [...driver.world.sandboxes.values()].find(
        ({ handle, running, frozen }) => handle.data.address === host && running && !frozen,
      )
    return {
      async initialize({ host }, { accessToken }, { currentToken }) {
        const memory = at(host)?.memory
        if (!memory) throw new AppError('unavailable', 'The agent does not answer.')
        const known = memory.get(agentTokenKey)
        if (known !== undefined && known !== currentToken) {
          throw new AppError('permission_denied', 'The agent knows another token.')
        }
        if (accessToken !== undefined) memory.set(agentTokenKey, accessToken)
      },
      isHealthy: async ({ host }) => at(host) !== undefined,
      run: async () => ({ exitCode: 0, status: 'exit status 0' }),
      async writeFile() {},
      async *followLogs() {},
    }
  }

  #log(): Log {
    const say = (level: string) => (values: object, message: string) => {
      const { err, ...rest } = values as { err?: Error }
      this.#note(
        () =>
          `${this.name} log ${level}: ${message} ${JSON.stringify(rest)}${err ? ` (${err.message})` : ''}`,
      )
    }
    return { debug: say('debug'), info: () => {}, warn: say('warn'), error: say('error') }
  }
}
