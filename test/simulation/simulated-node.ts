/** One machine with its Warren: the world of its driver outlives the process, and the process may die at any await. */

import { type DomainPorts, joinDomain } from '../../src/app/domain.ts'
import type { AgentPort } from '../../src/core/agent.ts'
import { RouteTable } from '../../src/core/sandbox/routes.ts'
import type { Stores } from '../../src/core/stores.ts'
import { FakeDriver, type FakeWorld } from '../../src/drivers/fake/fake-driver.ts'
import { AppError } from '../../src/lib/app-error.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Log } from '../../src/lib/log.ts'
import { generousAdmission } from '../support/domain.ts'
import { FakeVolumeDisks } from '../support/fake-volumes.ts'
import type { Note, ParkedCalls } from './parked-calls.ts'
import { ProcessClock, type SimulatedTime, WallClock } from './simulated-time.ts'

const reconcileEveryMs = 60_000
const bootRetryMs = 1000
export const rootFolder = '/root'
/** Where programs in a sandbox write, in its memory and in its files. */
export const writtenKey = 'written'
const agentTokenKey = 'agent token'

export type NodeOptions = { snapshotMemory: boolean; warmSandboxes: number }

const unused = () => Promise.reject(new AppError('internal', 'The simulation builds no templates.'))
/** Templates are not built in a simulation. */
const noBuilds: Pick<DomainPorts, 'images' | 'buildFiles' | 'createBuilder' | 'logs'> = {
  images: { prune: async () => ({ count: 0, bytes: 0 }), missing: () => [] },
  buildFiles: { has: unused, write: unused, open: unused, list: async () => [], remove: () => false },
  createBuilder: () => ({ run: unused }),
  logs: { append: async () => {}, read: async () => [], lastSequence: async () => 0, prune: async () => {} },
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
  /** Sandboxes in the middle of their start. */
  readonly starting = new Set<string>()

  constructor(parts: {
    name: string
    time: SimulatedTime
    world: FakeWorld
    calls: ParkedCalls
    stores: Stores
    options: NodeOptions
    note: Note
    newProcess: () => number
  }) {
    this.name = parts.name
    this.wall = new WallClock(parts.time)
    this.world = parts.world
    this.#calls = parts.calls
    this.#stores = parts.stores
    this.#options = parts.options
    this.#note = parts.note
    this.#newProcess = parts.newProcess
  }

  /** A new process: it reconciles, then takes requests, then reconciles every minute. */
  boot(): void {
    this.process = this.#newProcess()
    const clock = new ProcessClock(this.wall)
    this.clock = clock
    const core = this.wire(clock)
    this.core = core
    core.reconciler.watchExits()
    const reconcile = () =>
      core.reconciler.run().then(
        () => true,
        (error: Error) => {
          this.#note(() => `${this.name} could not reconcile: ${error.message}`)
          return false
        },
      )
    const repeat = () =>
      clock.after(reconcileEveryMs, () => {
        void reconcile().then(repeat)
      })
    const start = async () => {
      if (!(await reconcile())) return void clock.after(bootRetryMs, () => void start())
      if (this.core !== core) return
      this.#note(() => `${this.name} is up`)
      this.isUp = true
      repeat()
    }
    void start()
  }

  /** The processes of a sandbox end by themselves; the process that is there hears of it. */
  endProcesses(sandboxID: string): void {
    this.#driver?.crash(sandboxID)
  }

  /** The process dies at whatever it awaits. The machine and what runs on it stay. */
  crash(): void {
    this.#calls.drop(this.process)
    void this.#driver?.close()
    this.clock?.stop()
    this.core = undefined
    this.isUp = false
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
    const routes = new RouteTable()
    const domain = joinDomain(
      {
        ...{
          ...noBuilds,
          routes,
          clock,
          log: this.#log(),
          gate: undefined,
          authority: undefined,
          extraCA: undefined,
          recipes: [],
        },
        stores: Object.fromEntries(stores) as Stores,
        driver: wrap('driver', 'driver', this.#driver, ['endpoint', 'onExit']),
        agent: wrap('agent', 'agent', this.#newAgent(this.#driver)),
        snapshotFolders: wrap('driver', 'folders', folders, ['folder']),
        appendLog: () => {},
        lookup: async () => ['198.51.100.1'],
        isClosed: () => false,
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
    return { ...domain, routes }
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
