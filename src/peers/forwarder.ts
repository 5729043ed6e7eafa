/** Carries requests between the nodes of a cluster, each once. */
import type { ClientRequestArgs, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Forwarder, NeededRoom, SendOutcome, SentBody, TakeOver } from '../core/cluster/forwarder.ts'
import type { Membership } from '../core/cluster/membership.ts'
import { type ClusterNode, isAway, type Owned, type Owner } from '../core/cluster/node.ts'
import type { Owners } from '../core/cluster/owners.ts'
import { AppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import { ChunkPacer } from '../lib/http-relay/chunk-pacer.ts'
import { MalformedHead } from '../lib/http-relay/headers.ts'
import { type HttpExchange, HttpRelay } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import {
  answerRefusal,
  headersFromPeer,
  headForPeer,
  hopOf,
  type Refusal,
  refusalOf,
  trailersOfHop,
} from './hop.ts'
import type { PeerConnections } from './peer-connections.ts'
import { readSmallBody } from './small-body.ts'

const retryAwayAfterSeconds = 5
const retryMovedAfterSeconds = 1

export type ForwarderParts = {
  membership: Pick<Membership, 'nodeID' | 'find'>
  owners: Owners
  connections: PeerConnections
  takeOver: TakeOver
  /** Resolves when the sandbox is not on its way from this node to another. */
  settled: (sandboxID: string) => Promise<void>
  log: Log
}

type Attempt = { body?: Buffer | undefined; needs: NeededRoom | undefined }

export class ClusterForwarder implements Forwarder {
  readonly #parts: ForwarderParts

  constructor(parts: ForwarderParts) {
    this.#parts = parts
  }

  isFromPeer(request: IncomingMessage): boolean {
    return hopOf(request) !== undefined
  }

  async forward(what: Owned, exchange: HttpExchange): Promise<boolean> {
    if (what.kind === 'sandbox') await this.#parts.settled(what.id)
    const owner = await this.#parts.owners.find(what)
    if (!owner || this.#isOwn(owner)) return false
    if (this.isFromPeer(exchange.request)) return this.#rejectMisdirected(what, exchange)
    const node = await this.#reachable(what, owner)
    if (!node) return false
    const body = await readSmallBody(exchange)
    const refusal = await this.#carry(node, exchange, { body, needs: undefined })
    if (refusal === undefined) return true
    return this.#lookAgain(what, exchange, body)
  }

  async takeWithoutMemory(sandboxID: string): Promise<boolean> {
    const isOwn = await this.#parts.takeOver(sandboxID, { memory: false })
    await this.#parts.owners.read({ kind: 'sandbox', id: sandboxID })
    return isOwn
  }

  async send(nodeID: string, exchange: HttpExchange, { body, needs }: SentBody): Promise<SendOutcome> {
    const node = await this.#parts.membership.find(nodeID)
    if (!node || isAway(node)) return 'no room'
    const refusal = await this.#carry(node, exchange, { body, needs })
    return refusal === undefined ? 'answered' : 'no room'
  }

  roomNeeded(request: IncomingMessage): NeededRoom | undefined {
    return hopOf(request)?.needs
  }

  refuseForRoom(exchange: HttpExchange): void {
    answerRefusal(exchange, 503, 'no room')
  }

  #isOwn({ nodeID }: Owner): boolean {
    return nodeID === this.#parts.membership.nodeID
  }

  /** A peer remembered it wrongly, unless this node did. */
  async #rejectMisdirected(what: Owned, exchange: HttpExchange): Promise<boolean> {
    const owner = await this.#parts.owners.read(what)
    if (!owner || this.#isOwn(owner)) return false
    answerRefusal(exchange, 421, 'not the owner')
    return true
  }

  /** The node to ask; undefined: this node has it now. */
  async #reachable(what: Owned, owner: Owner): Promise<ClusterNode | undefined> {
    const { membership, owners, takeOver } = this.#parts
    const node = await membership.find(owner.nodeID)
    if (node && !isAway(node)) return node
    // It may have moved since the owner was remembered.
    const now = await owners.read(what)
    if (!now || this.#isOwn(now)) return undefined
    const other = await membership.find(now.nodeID)
    if (other && !isAway(other)) return other
    if (what.kind === 'sandbox' && now.isMovable && (await takeOver(what.id, { memory: true }))) {
      await owners.read(what)
      return undefined
    }
    throw nodeIsAway(what, now.nodeID, other)
  }

  /** The peer is no owner any more: whoever is one now gets the same request, this node by its own inner door. */
  async #lookAgain(what: Owned, exchange: HttpExchange, body: Buffer | undefined): Promise<boolean> {
    const { owners, membership } = this.#parts
    const owner = await owners.read(what)
    const node = await membership.find(owner?.nodeID ?? membership.nodeID)
    const canRepeat = body !== undefined || !hasBody(exchange.request)
    if (!node || isAway(node) || !canRepeat) throw hasMoved(what)
    const refusal = await this.#carry(node, exchange, { body, needs: undefined })
    if (refusal !== undefined) throw hasMoved(what)
    return true
  }

  /** Resolves when the answer has begun, or with why the node has none. */
  #carry(node: ClusterNode, exchange: HttpExchange, attempt: Attempt): Promise<Refusal | undefined> {
    const { connections, log } = this.#parts
    const { request, response, upgrade, awaitsContinue } = exchange
    const { body, needs } = attempt
    return new Promise((resolve, reject) => {
      const head = headForPeer(request, {
        ...{ awaitsContinue: awaitsContinue && body === undefined, upgrade: upgrade !== null, needs },
        bodyLength: body?.length,
      })
      const tunnel: ClientRequestArgs['createConnection'] = (_options, callback) => {
        const done = callback as (error: Error | null, socket?: Socket) => void
        connections.dial(node).then((socket) => done(null, socket), done)
        return undefined
      }
      response.once('close', () => resolve(undefined))
      new HttpRelay({
        ...{ request, response, awaitsContinue, upgrade, head, body },
        target: {
          ...(upgrade ? { createConnection: tunnel } : { agent: connections.poolFor(node) }),
          path: request.url ?? '/',
        },
        answerHeaders: (raw, keepsTrailers) => {
          resolve(undefined)
          return headersFromPeer(raw, keepsTrailers)
        },
        ownTrailers: trailersOfHop,
        pacer: new ChunkPacer(systemClock),
        keepsAnswer: (answer) => {
          const why = refusalOf(answer)
          if (why !== undefined) resolve(why)
          return why !== undefined
        },
        fail: (error) => {
          log.debug({ err: error, nodeID: node.nodeID }, 'A node did not answer.')
          reject(noAnswer(node, error))
        },
      })
    })
  }
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

const nouns: Record<Owned['kind'], string> = {
  sandbox: 'sandbox',
  build: 'build',
  volume: 'volume',
  template: 'template',
  quarantined: 'snapshot',
  node: 'node',
}

function nodeIsAway({ kind, id }: Owned, nodeID: string, node: ClusterNode | undefined): AppError {
  const silent = node ? ` for ${Math.round(node.silentMs / 1000)} s` : ''
  return new AppError(
    'unavailable',
    `The ${nouns[kind]} ${id} is on node ${nodeID}, which has given no sign of life${silent}. It is as it was when the ` +
      'node comes back; try again in a while.',
    { retry: { should: true, afterSeconds: retryAwayAfterSeconds } },
  )
}

const noAnswer = ({ nodeID }: ClusterNode, cause: unknown): AppError | MalformedHead =>
  cause instanceof MalformedHead
    ? cause
    : new AppError('unavailable', `Node ${nodeID} did not answer; try again in a moment.`, {
        ...{ cause, retry: { should: true, afterSeconds: retryMovedAfterSeconds } },
      })

const hasMoved = ({ kind, id }: Owned): AppError =>
  new AppError('unavailable', `The ${nouns[kind]} ${id} is moving to another node; try again in a moment.`, {
    retry: { should: true, afterSeconds: retryMovedAfterSeconds },
  })
