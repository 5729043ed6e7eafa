/**
 * Many nodes in one process over one real PostgreSQL: each is the domain as the server joins it, with a row, signs of life
 * and a placer of its own, on a machine that is not real. What goes between nodes goes by a call, or by a message if
 * another process has the other node.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import type { Kysely, KyselyPlugin, RawBuilder } from 'kysely'
import { joinClusterDomain } from '../../src/app/cluster/cluster-domain.ts'
import { joinDomain } from '../../src/app/domain/domain.ts'
import { repeat } from '../../src/app/domain/repeat.ts'
import type { Forwarder, NeededCapacity } from '../../src/core/cluster/forwarder.ts'
import { Membership } from '../../src/core/cluster/membership.ts'
import { type NodeFacts, type NodeLoad, renewEveryMs } from '../../src/core/cluster/node.ts'
import { Placer } from '../../src/core/cluster/placer.ts'
import { RouteTable } from '../../src/core/sandbox/network/routes.ts'
import type { Team } from '../../src/core/team/team.ts'
import { noAgent } from '../../src/drivers/driver-fixture.ts'
import { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import { AppError } from '../../src/lib/app-error.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { HttpExchange } from '../../src/lib/http-relay/http-relay.ts'
import { newUUID } from '../../src/lib/ids.ts'
import { silentLog } from '../../src/lib/log.ts'
import type { Tables } from '../../src/store/database/tables.ts'
import { openDatabase, storesOver } from '../../src/store/open-stores.ts'
import type { Stores } from '../../src/store/stores.ts'
import { vault } from '../../src/store/suite/rows.ts'
import { generousAdmission, request } from '../support/domain.ts'
import { createFakeAgent } from '../support/fake-agent.ts'
import { FakeVolumeDisks } from '../support/fake-volumes.ts'
import { noBuilds, noEgress } from '../support/no-builds.ts'

const joinAtOnce = 50
const machine = { cpuCount: 32, memoryMB: 131_072, availableMemoryMB: async () => 131_072 }
/** As many names of features as the CPU of a server has. */
const features = Array.from({ length: 120 }, (_, at) => `flag${at}`)
const facts: NodeFacts = {
  version: '1',
  isolation: 'gvisor',
  cpuCount: machine.cpuCount,
  memoryMB: machine.memoryMB,
  cpu: { architecture: 'x86_64', family: '6', model: '1', modelName: 'not real', features },
}
const disk = { mountPoint: '/', filesystemType: 'ext4', device: 'disk', usedBytes: 0, totalBytes: 1e12 }

type Asker = 'requests' | 'signs of life'
const asker = new AsyncLocalStorage<Asker>()

export type FakeNode = ReturnType<typeof joinNode>

/** What the nodes have done, in milliseconds of CPU and statements without those that begin and end transactions. */
export type DoneByNodes = { cpuMs: number; statements: Record<Asker, number> }

/** Sends a create to a node of another process. Undefined: there is no room. */
export type CreateElsewhere = (nodeID: string, asked: AskedCreate) => Promise<string | undefined>

export type NodeRange = { url: string; from: number; to: number; connections: number }

export class FakeNodes {
  readonly nodes: FakeNode[] = []
  /** What was said of signs of life that failed. */
  readonly failures: string[] = []
  readonly #db: Kysely<Tables>
  readonly #createElsewhere: CreateElsewhere
  readonly #statements: Record<Asker, number> = { requests: 0, 'signs of life': 0 }
  readonly #byID = new Map<string, FakeNode>()
  readonly #timers: NodeJS.Timeout[] = []
  readonly #repeats: (() => Promise<void>)[] = []

  constructor(db: Kysely<Tables>, createElsewhere: CreateElsewhere) {
    this.#db = db.withPlugin(this.#count)
    this.#createElsewhere = createElsewhere
  }

  static async join(range: NodeRange, createElsewhere: CreateElsewhere): Promise<FakeNodes> {
    const { url, from, to, connections } = range
    const joined = new FakeNodes(
      await openDatabase({ url, connections, dataFolder: tmpdir(), vault }),
      createElsewhere,
    )
    for (let first = from; first < to; first += joinAtOnce) {
      const some = Array.from({ length: Math.min(joinAtOnce, to - first) }, (_, at) => `node-${first + at}`)
      await Promise.all(some.map((nodeID) => joined.#join(nodeID)))
    }
    return joined
  }

  async #join(nodeID: string): Promise<void> {
    const node = joinNode(storesOver(this.#db, vault, nodeID), nodeID, this)
    this.nodes.push(node)
    this.#byID.set(nodeID, node)
    await node.membership.join()
  }

  create(nodeID: string, asked: AskedCreate): Promise<string | undefined> {
    return this.#byID.get(nodeID)?.create(asked) ?? this.#createElsewhere(nodeID, asked)
  }

  done(): DoneByNodes {
    const { user, system } = process.cpuUsage()
    return { cpuMs: (user + system) / 1000, statements: this.#statements }
  }

  /** Number of sandboxes of each node. */
  loads(): number[] {
    return this.nodes.map(({ driver }) => driver.world.sandboxes.size)
  }

  readonly #count: KyselyPlugin = {
    transformQuery: ({ node }) => {
      this.#statements[asker.getStore() ?? 'requests']++
      return node
    },
    transformResult: async ({ result }) => result,
  }

  /** Each at its own moment, as on machines that were started one after the other. */
  giveSignsOfLife(): void {
    const log = { ...silentLog, error: (_: object, message: string) => void this.failures.push(message) }
    this.nodes.forEach(({ membership }, at) => {
      const renew = () => asker.run('signs of life', () => membership.renew())
      const loop = { job: 'give a sign of life', pauseMs: renewEveryMs, work: renew }
      const begin = () => void this.#repeats.push(repeat(loop, { clock: systemClock, log }))
      this.#timers.push(setTimeout(begin, (at * renewEveryMs) / this.nodes.length))
    })
  }

  async stopSignsOfLife(): Promise<void> {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer)
    await Promise.all(this.#repeats.splice(0).map((stop) => stop()))
  }

  query<T>(statement: RawBuilder<T>): Promise<T[]> {
    return statement.execute(this.#db).then(({ rows }) => rows)
  }

  async close(): Promise<void> {
    await this.stopSignsOfLife()
    await Promise.all(this.nodes.map(({ service }) => service.close()))
    await this.#db.destroy()
  }
}

/** A create on its way. `sandboxID` is set by the node that has answered it. */
export type AskedCreate = {
  team: Team
  needs?: NeededCapacity | undefined
  attemptID?: string | undefined
  isFromPeer: boolean
  sandboxID?: string
}

function joinNode(stores: Stores, nodeID: string, all: FakeNodes) {
  const driver = new FakeDriver()
  driver.world.prepared.add('/root')
  const [routes, clock, log] = [new RouteTable(), systemClock, silentLog]
  const domain = joinDomain(
    {
      ...noBuilds,
      ...noEgress,
      stores,
      driver,
      routes,
      clock,
      log,
      machine,
      agent: createFakeAgent(driver),
      snapshotFolders: { folder: (name) => name, names: async () => [], bytesOf: async () => 0 },
      volumeDisks: new FakeVolumeDisks(),
      agentProgram: noAgent,
      rootsOf: () => ['/root'],
      freeBytes: async () => 1e12,
    },
    {
      seed: 'seed',
      nodeID,
      quarantineMs: 1e9,
      minFreeBytes: 0,
      maxBuildLogBytes: 0,
      warmPool: { min: 0, memoryMB: undefined },
      volumes: { perTeam: 0, sizeMB: 64 },
      admission: { ...generousAdmission, cpuOvercommit: 4, memoryOvercommit: 1 },
    },
  )
  const membership = new Membership({
    nodes: stores.nodes,
    clock,
    log,
    onForgotten: async () => {},
    onReplaced: (problem) => {
      throw problem
    },
    self: { nodeID, runID: newUUID(), address: `${nodeID}:7443`, facts },
    readLoad: () => readLoad(stores, domain),
  })
  const handOver = () => Promise.reject(new AppError('internal', 'Nothing is drained here.'))
  const { router } = joinClusterDomain({
    ports: { stores, driver, routes, clock, log },
    domain,
    membership,
    handOver,
    askWhyUnfit: async () => undefined,
  })
  const placer = new Placer({
    ...domain,
    membership,
    owners: stores.owners,
    forwarder: forwarderIn(all),
    reachability: { troubleOf: () => undefined },
    clock,
  })
  const { service } = domain
  /** As the route of the API does it. Undefined: a peer has asked, and there is no room. */
  const create = async (asked: AskedCreate): Promise<string | undefined> => {
    const none = { volumeNames: [], metadata: {}, idempotencyKey: undefined }
    const wanted = { template: 'base', ...none, body: () => Buffer.of() }
    const exchange = { request: asked as unknown as IncomingMessage } as HttpExchange
    const { isAnswered, attemptKey: key } = await placer.placeCreate(asked.team, wanted, exchange)
    if (isAnswered) return asked.sandboxID
    const claim = key === undefined ? undefined : { key, requestHash: '' }
    const { sandboxID } = await service.create(asked.team, request({ timeoutMs: 3_600_000 }), claim)
    return sandboxID
  }
  return { nodeID, stores, driver, membership, router, service, create }
}

async function readLoad(stores: Stores, domain: ReturnType<typeof joinDomain>): Promise<NodeLoad> {
  const active = await stores.sandboxes.sumActive()
  const capacity = domain.admission.capacity(active)
  return {
    ...capacity,
    availableMemoryMB: machine.memoryMB,
    sandboxes: active.sandboxes,
    disk,
    allocatedCPU: active.cpuCount,
    allocatedMemoryMB: active.memoryMB,
    cpuPercent: 0,
    createSuccesses: 0,
    createFails: 0,
    warmTemplates: [],
    buildsAtHand: [],
  }
}

const createOf = (asked: IncomingMessage): AskedCreate => asked as unknown as AskedCreate

function forwarderIn(all: FakeNodes): Forwarder<HttpExchange> {
  const unused = () => Promise.reject(new AppError('internal', 'Only creates are passed on here.'))
  return {
    forward: unused,
    takeOver: unused,
    whyMissing: unused,
    isFromPeer: (asked) => createOf(asked).isFromPeer,
    capacityNeeded: (asked) => createOf(asked).needs,
    attemptIDOf: (asked) => createOf(asked).attemptID,
    refuseForCapacity: () => {},
    reportMade: () => {},
    refuseAsMisdirected: () => {},
    async send(nodeID, exchange, { needs, attemptID }) {
      const asked = createOf(exchange.request)
      const passedOn = { team: asked.team, isFromPeer: true, needs, attemptID }
      const sandboxID = await all.create(nodeID, passedOn)
      if (sandboxID === undefined) return 'no room'
      asked.sandboxID = sandboxID
      return 'answered'
    },
  }
}
