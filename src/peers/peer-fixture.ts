/** Nodes of a cluster within one process, each with an inner door, for tests of the traffic between them. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { ClusterNode } from '../core/cluster/node.ts'
import type { Owner } from '../core/cluster/owner-store.ts'
import { Owners } from '../core/cluster/owners.ts'
import { Reachability } from '../core/cluster/reachability.ts'
import { RequestRouter } from '../core/cluster/request-router.ts'
import { SecretVault } from '../core/secret/vault.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import { silentLog } from '../lib/log.ts'
import { ClusterForwarder } from './forwarder.ts'
import { PeerConnections } from './peer-connections.ts'
import { openPeerIdentity, type PeerIdentity } from './peer-identity.ts'
import { createPeerServer } from './peer-server.ts'
import { PeerWatch } from './peer-watch.ts'
import { QueuedRequests } from './queued-requests.ts'

export type Handler = (request: IncomingMessage, response: ServerResponse) => void

export type TestNode = {
  nodeID: string
  identity: PeerIdentity
  forwarder: ClusterForwarder
  inner: { port: number; server: Server; rejectIdle: () => void }
  publicURL: string
  /** Requests that this node answered. */
  answered: IncomingMessage[]
}

export class TestPeers {
  readonly nodes = new Map<string, TestNode>()
  /** The owner of the sandbox in the path, according to its row. */
  readonly owners = new Map<string, Owner>()
  readonly unreachable = new Set<string>()
  readonly claimed: string[] = []
  /** Sandboxes whose memory no other node can use. */
  readonly unfit = new Set<string>()
  /** How long nodes that are started from now on hold requests for others that are away. */
  queueWithinMs = 0
  reads = 0
  /** Connections between nodes that did not come about. */
  failedDials = 0
  onRead = () => {}
  settled: (id: string) => Promise<void> = async () => {}
  readonly #shared = new Map<string, string>()
  readonly #t: TestContext

  constructor(t: TestContext) {
    this.#t = t
  }

  readonly share = async (name: string, value: string): Promise<string> => {
    if (!this.#shared.has(name)) this.#shared.set(name, value)
    return this.#shared.get(name)!
  }

  async start(nodeID: string, handle: Handler = answerWithName(nodeID)): Promise<TestNode> {
    const identity = await openPeerIdentity({ share: this.share }, new SecretVault('a'.repeat(64)), nodeID)
    const reachability = new Reachability(systemClock)
    const noteTrouble = reachability.noteTrouble.bind(reachability)
    reachability.noteTrouble = (peer, why) => {
      this.failedDials++
      noteTrouble(peer, why)
    }
    const connections = new PeerConnections(identity, reachability)
    const membership = { nodeID, find: async (id: string) => this.#describe(id) }
    const router = new RequestRouter({
      membership,
      owners: new Owners({ ownerOf: ({ id }) => this.#read(id) }, nodeID),
      takeOver: async (id, { memory }) => {
        if (memory && this.unfit.has(id)) throw new AppError('unprocessable', 'The memory does not fit.')
        this.claimed.push(id)
        this.owners.set(id, { nodeID, isMovable: false })
        return true
      },
      settled: (id) => this.settled(id),
    })
    const { queueWithinMs: withinMs } = this
    const watch = new PeerWatch({
      membership: { ...membership, nodes: async () => [] },
      connections,
      reachability,
    })
    const queue = new QueuedRequests({ look: (id) => watch.look(id), clock: systemClock, withinMs })
    const forwarder = new ClusterForwarder({ membership, router, connections, queued: queue, log: silentLog })
    const answered: IncomingMessage[] = []
    const serve = async (exchange: HttpExchange): Promise<void> => {
      const { request, response } = exchange
      try {
        const id = /^\/sandboxes\/([a-z0-9]+)/.exec(request.url ?? '')?.[1] ?? 'none'
        const forwarded = await forwarder.forward({ kind: 'sandbox', id }, exchange)
        if (forwarded === 'answered') return
        if (forwarded === 'absent') await forwarder.takeOver(id, { memory: true })
        answered.push(request)
        handle(request, response)
      } catch (error) {
        const seconds = isAppError(error) ? error.retry?.afterSeconds : undefined
        response.writeHead(503, { 'Retry-After': String(seconds ?? 0) })
        response.end(String((error as Error).message))
      }
    }
    const { server: inner, requests, rejectIdle } = createPeerServer({}, identity)
    const door = createServer()
    for (const source of [requests, door])
      source.on('request', (request, response) => {
        void serve({ request, response, awaitsContinue: false, upgrade: null })
      })
    for (const server of [inner, door]) {
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
    }
    this.#t.after(() => {
      connections.close()
      for (const server of [inner, door]) server.close().closeAllConnections()
    })
    const portOf = (server: Server) => (server.address() as AddressInfo).port
    const node: TestNode = {
      nodeID,
      identity,
      forwarder,
      answered,
      inner: { port: portOf(inner), server: inner, rejectIdle },
      publicURL: `http://127.0.0.1:${portOf(door)}`,
    }
    this.nodes.set(nodeID, node)
    return node
  }

  async #read(id: string): Promise<Owner | undefined> {
    this.reads++
    this.onRead()
    return this.owners.get(id)
  }

  #describe(nodeID: string): ClusterNode | undefined {
    const node = this.nodes.get(nodeID)
    if (!node) return undefined
    const silentMs = this.unreachable.has(nodeID) ? 60_000 : 0
    return { nodeID, address: `127.0.0.1:${node.inner.port}`, silentMs } as ClusterNode
  }
}

/** For tests of nodes that are away: their requests are answered at once. */
export const queueNothing = (): QueuedRequests =>
  new QueuedRequests({ look: async () => 'unreachable', clock: systemClock, withinMs: 0 })

const answerWithName =
  (nodeID: string): Handler =>
  (request, response) => {
    request.resume().on('end', () => response.end(nodeID))
  }
