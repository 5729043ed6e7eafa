/** Several APIs over one database, each a node with its own doors, and sandboxes that are not real. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinClusterDomain } from '../../src/app/cluster/cluster-domain.ts'
import { BuildPlacer } from '../../src/core/cluster/build-placer.ts'
import { EveryNode } from '../../src/core/cluster/every-node.ts'
import { FileSearch } from '../../src/core/cluster/file-search.ts'
import type { Membership } from '../../src/core/cluster/membership.ts'
import type { ClusterNode, NodeStatus } from '../../src/core/cluster/node.ts'
import { Placer } from '../../src/core/cluster/placer.ts'
import { Reachability } from '../../src/core/cluster/reachability.ts'
import { VolumePlacer } from '../../src/core/cluster/volume-placer.ts'
import { createEdge } from '../../src/edge/edge.ts'
import { routeOfSignedFile } from '../../src/edge/signed-file.ts'
import { ManualClock, systemClock } from '../../src/lib/clock.ts'
import { silentLog } from '../../src/lib/log.ts'
import { createAskNode } from '../../src/peers/ask-node.ts'
import { ClusterForwarder } from '../../src/peers/forwarder.ts'
import { PeerConnections } from '../../src/peers/peer-connections.ts'
import { queueNothing } from '../../src/peers/peer-fixture.ts'
import { openPeerIdentity, type PeerIdentity } from '../../src/peers/peer-identity.ts'
import { answerOperation, createAskForFile, type PeerOperations } from '../../src/peers/peer-operations.ts'
import { createPeerServer } from '../../src/peers/peer-server.ts'
import { aNode } from '../../src/store/suite/nodes.ts'
import { vault } from '../../src/store/suite/rows.ts'
import { adminToken, openApi } from './api.ts'
import type { Fixture, FixtureOptions } from './domain.ts'

export type ApiNode = Awaited<ReturnType<typeof openApi>> & {
  nodeID: string
  /** The address of its public door. */
  url: string
  call(method: string, path: string, more?: Call): Promise<Response>
  /** The same as the operator. */
  callAsAdmin(method: string, path: string, body?: object): Promise<Response>
  /** Breaks the connections of peers to this node. */
  dropPeers(): void
  reachability: Reachability
}

type Call = { body?: object; headers?: Record<string, string> }

export type ApiCluster = { nodes: ApiNode[]; away: Set<string>; [Symbol.asyncDispose](): Promise<void> }

/** What nodes know of each other; tests change it. */
type Known = { addresses: Map<string, string>; away: Set<string>; statuses: Map<string, NodeStatus> }

export async function openApiCluster(
  nodeIDs: readonly string[] = ['one', 'other'],
  options: (nodeID: string) => FixtureOptions = () => ({}),
): Promise<ApiCluster & Known> {
  const databaseFolder = mkdtempSync(join(tmpdir(), 'warren-nodes-'))
  const clock = new ManualClock()
  const known: Known = { addresses: new Map(), away: new Set(), statuses: new Map() }
  const opened: Awaited<ReturnType<typeof openNode>>[] = []
  for (const nodeID of nodeIDs)
    opened.push(await openNode(nodeID, known, { databaseFolder, clock, nodeID, ...options(nodeID) }))
  return {
    ...known,
    nodes: opened.map(({ node }) => node),
    async [Symbol.asyncDispose]() {
      for (const { close } of opened) await close()
      rmSync(databaseFolder, { recursive: true, force: true })
    },
  }
}

async function openNode(nodeID: string, known: Known, fixture: FixtureOptions) {
  let identity: PeerIdentity | undefined
  let connections: PeerConnections | undefined
  let forwarder: ClusterForwarder | undefined
  const reachability = new Reachability(systemClock)
  const membership = membershipOf(nodeID, known)
  const join = async (domain: Fixture) => {
    const { stores, catalog, admission } = domain
    identity = await openPeerIdentity(stores.nodes, vault, nodeID)
    connections = new PeerConnections(identity, reachability)
    const { router } = joinClusterDomain({
      ports: { ...domain, log: silentLog },
      domain,
      membership,
      askWhyUnfit: async () => undefined,
      handOver: async () => assert.fail('nothing is handed over here'),
    })
    forwarder = new ClusterForwarder({
      membership,
      router,
      connections,
      queued: queueNothing(),
      log: silentLog,
    })
    const placer = new Placer({
      membership,
      forwarder,
      catalog,
      admission,
      owners: stores.owners,
      reachability,
      clock: domain.clock,
    })
    const everyNode = new EveryNode({ membership, ask: createAskNode(connections), log: silentLog })
    const buildPlacer = new BuildPlacer({ membership, forwarder, catalog, owners: stores.owners })
    const volumePlacer = new VolumePlacer({ membership, forwarder })
    return { nodeID, forwarder, placer, everyNode, buildPlacer, volumePlacer }
  }
  const api = await openApi({ fixture, cluster: join })
  await api.api.ready()
  const { routes, findResumable, findDemand } = api.fixture
  const files = new FileSearch(membership, createAskForFile(connections!))
  const edge = createEdge({
    routes,
    findResumable,
    findDemand,
    forwarder: forwarder!,
    domain: null,
    log: silentLog,
    findSigned: async (request, path) =>
      forwarder!.isFromPeer(request) ? undefined : files.find({ method: request.method!, path }),
  })
  const operations: PeerOperations = {
    'take offered sandbox': async () => assert.fail('nothing is offered here'),
    'say why memory is unfit': async () => undefined,
    'find signed file': async ({ method, path }) =>
      routeOfSignedFile(method, path, routes.values())?.sandboxID,
  }
  const { server: peerServer, requests } = createPeerServer({}, identity!)
  const servers: Server[] = [peerServer, createServer()]
  for (const source of [requests, servers[1]!])
    edge.attach(source, (request, response) => {
      if (!answerOperation(request, response, operations)) api.api.routing(request, response)
    })
  for (const server of servers) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  }
  const [inner, door] = servers.map((server) => (server.address() as AddressInfo).port)
  known.addresses.set(nodeID, `127.0.0.1:${inner}`)
  const url = `http://127.0.0.1:${door}`
  const call = (method: string, path: string, { body, headers = { 'X-API-Key': api.key } }: Call = {}) =>
    fetch(`${url}${path}`, {
      method,
      headers: { ...headers, ...(body && { 'Content-Type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
  const callAsAdmin = (method: string, path: string, body?: object) =>
    call(method, path, { headers: { 'X-Admin-Token': adminToken }, ...(body && { body }) })
  const close = async () => {
    connections?.close()
    edge.close()
    for (const server of servers) server.close().closeAllConnections()
    await api[Symbol.asyncDispose]()
  }
  const dropPeers = () => servers[0]!.closeAllConnections()
  const node: ApiNode = { ...api, nodeID, url, call, callAsAdmin, dropPeers, reachability }
  return { node, close }
}

function membershipOf(nodeID: string, { addresses, away, statuses }: Known): Membership {
  const nodes = async (): Promise<ClusterNode[]> =>
    [...addresses].map(([id, address]) => ({
      ...aNode(id),
      address,
      status: statuses.get(id) ?? 'ready',
      statusChangedAt: 0,
      silentMs: away.has(id) ? 60_000 : 0,
    }))
  const find = async (id: string) => (await nodes()).find((node) => node.nodeID === id)
  const self = {
    nodeID,
    nodes,
    nodesNow: nodes,
    find,
    get isDraining() {
      return statuses.get(nodeID) === 'draining'
    },
  }
  return self as unknown as Membership
}
