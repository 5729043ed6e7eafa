/**
 * Many nodes in one process over one real PostgreSQL: each is the domain as the server joins it, with a row, signs of life
 * and a placer of its own, on a machine that is not real. What goes between nodes goes by a call.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { type Kysely, type KyselyPlugin, sql } from 'kysely'
import { joinClusterDomain } from '../../src/app/cluster-domain.ts'
import { joinDomain } from '../../src/app/domain.ts'
import { repeatEvery } from '../../src/app/repeat.ts'
import type { Forwarder, NeededRoom } from '../../src/core/cluster/forwarder.ts'
import { Membership } from '../../src/core/cluster/membership.ts'
import { type NodeFacts, type NodeLoad, renewEveryMs } from '../../src/core/cluster/node.ts'
import { Placer } from '../../src/core/cluster/placer.ts'
import { RouteTable } from '../../src/core/sandbox/network/routes.ts'
import type { Team } from '../../src/core/team/team.ts'
import { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import { AppError } from '../../src/lib/app-error.ts'
import { systemClock } from '../../src/lib/clock.ts'
import type { HttpExchange } from '../../src/lib/http-relay/http-relay.ts'
import { newUUID } from '../../src/lib/ids.ts'
import { silentLog } from '../../src/lib/log.ts'
import { openDatabase, storesOver } from '../../src/store/open-stores.ts'
import type { Stores } from '../../src/store/stores.ts'
import { vault } from '../../src/store/suite/rows.ts'
import type { Tables } from '../../src/store/tables.ts'
import { generousAdmission, request } from '../support/domain.ts'
import { createFakeAgent } from '../support/fake-agent.ts'
import { FakeVolumeDisks } from '../support/fake-volumes.ts'
import { noBuilds, noEgress } from '../support/no-builds.ts'

/** A server has ten connections of its own; here all nodes share forty. */
const poolCount = 4
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

export class FakeCluster {
  readonly nodes: FakeNode[] = []
  /** So many statements each has made, without those that begin and end transactions. */
  readonly statements: Record<Asker, number> = { requests: 0, 'signs of life': 0 }
  /** What was said of signs of life that failed. */
  readonly failures: string[] = []
  readonly #databases: Kysely<Tables>[] = []
  readonly #byID = new Map<string, FakeNode>()
  readonly #timers: NodeJS.Timeout[] = []
  readonly #repeats: (() => Promise<void>)[] = []

  static async open(url: string, count: number): Promise<FakeCluster> {
    const cluster = new FakeCluster()
    for (let at = 0; at < poolCount; at++) {
      const db = await openDatabase({ url, dataFolder: tmpdir(), vault })
      cluster.#databases.push(db.withPlugin(cluster.#count))
    }
    for (let first = 0; first < count; first += joinAtOnce) {
      const joining = Array.from({ length: Math.min(joinAtOnce, count - first) }, (_, at) =>
        cluster.#join(`node-${first + at}`, cluster.#databases[at % poolCount]!),
      )
      await Promise.all(joining)
    }
    return cluster
  }

  async #join(nodeID: string, db: Kysely<Tables>): Promise<void> {
    const node = joinNode(storesOver(db, vault, nodeID), nodeID, this)
    this.nodes.push(node)
    this.#byID.set(nodeID, node)
    await node.membership.join()
  }

  readonly #count: KyselyPlugin = {
    transformQuery: ({ node }) => {
      this.statements[asker.getStore() ?? 'requests']++
      return node
    },
    transformResult: async ({ result }) => result,
  }

  /** Each at its own moment, as on machines that were started one after the other. */
  giveSignsOfLife(): void {
    const log = { ...silentLog, error: (_: object, message: string) => void this.failures.push(message) }
    this.nodes.forEach(({ membership }, at) => {
      const renew = () => asker.run('signs of life', () => membership.renew())
      const begin = () =>
        void this.#repeats.push(repeatEvery(renewEveryMs, 'give a sign of life', log, renew))
      this.#timers.push(setTimeout(begin, (at * renewEveryMs) / this.nodes.length))
    })
  }

  async stopSignsOfLife(): Promise<void> {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer)
    await Promise.all(this.#repeats.splice(0).map((stop) => stop()))
  }

  find(nodeID: string): FakeNode {
    return this.#byID.get(nodeID)!
  }

  /** The id of a process of PostgreSQL, whose parent is the parent of all others. */
  async readBackendPid(): Promise<number> {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(this.#databases[0]!)
    return rows[0]!.pid
  }

  /** What PostgreSQL has written to its log since it started, and how often the disk was waited for. */
  async readWal(): Promise<{ walBytes: number; walSyncs: number }> {
    const query = sql<{ walBytes: number; walSyncs: number }>`
      select wal_bytes::bigint as "walBytes", wal_sync as "walSyncs" from pg_stat_wal`
    const { rows } = await query.execute(this.#databases[0]!)
    return rows[0]!
  }

  async close(): Promise<void> {
    await this.stopSignsOfLife()
    await Promise.all(this.nodes.map(({ service }) => service.close()))
    for (const db of this.#databases) await db.destroy()
  }
}

/** A create on its way. `sandboxID` is set by the node that has answered it. */
type AskedCreate = {
  team: Team
  needs?: NeededRoom | undefined
  attemptID?: string | undefined
  isFromPeer: boolean
  sandboxID?: string
}

function joinNode(stores: Stores, nodeID: string, cluster: FakeCluster) {
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
      snapshotFolders: { folder: (name) => name, names: async () => [], roomOf: async () => 0 },
      volumeDisks: new FakeVolumeDisks(),
      rootsOf: () => ['/root'],
      freeBytes: async () => 1e12,
    },
    {
      seed: 'seed',
      nodeID,
      quarantineMs: 1e9,
      minFreeBytes: 0,
      maxBuildLogBytes: 0,
      warmPool: { least: 0, memoryMB: undefined },
      volumes: { perTeam: 0, sizeMB: 64 },
      admission: { ...generousAdmission, cpuOvercommit: 4, memoryOvercommit: 1 },
    },
  )
  const membership = new Membership({
    nodes: stores.nodes,
    clock,
    log,
    onForgotten: async () => {},
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
    forwarder: forwarderIn(cluster),
    reachability: { troubleOf: () => undefined },
    clock,
  })
  const { service } = domain
  /** As the route of the API does it. Undefined: a peer has asked, and there is no room. */
  const create = async (asked: AskedCreate): Promise<string | undefined> => {
    const none = { volumeNames: [], metadata: {}, idempotencyKey: undefined }
    const wanted = { template: 'base', ...none, body: () => Buffer.of() }
    const exchange = { request: asked as unknown as IncomingMessage } as HttpExchange
    const { isAnswered, attemptKey: key } = await placer.place(asked.team, wanted, exchange)
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

function forwarderIn(cluster: FakeCluster): Forwarder<HttpExchange> {
  const unused = () => Promise.reject(new AppError('internal', 'Only creates are passed on here.'))
  return {
    forward: unused,
    takeOver: unused,
    whyMissing: unused,
    isFromPeer: (asked) => createOf(asked).isFromPeer,
    roomNeeded: (asked) => createOf(asked).needs,
    attemptIDOf: (asked) => createOf(asked).attemptID,
    refuseForRoom: () => {},
    tellMade: () => {},
    refuseAsMisdirected: () => {},
    async send(nodeID, exchange, { needs, attemptID }) {
      const asked = createOf(exchange.request)
      const passedOn = { team: asked.team, isFromPeer: true, needs, attemptID }
      const sandboxID = await cluster.find(nodeID).create(passedOn)
      if (sandboxID === undefined) return 'no room'
      asked.sandboxID = sandboxID
      return 'answered'
    },
  }
}
