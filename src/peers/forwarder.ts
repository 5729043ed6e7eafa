/** Forwards requests between the nodes of a cluster, each at most once. */
import type { ClientRequestArgs, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type {
  Forwarded,
  Forwarder,
  NeededCapacity,
  SendOutcome,
  SentBody,
} from '../core/cluster/forwarder.ts'
import type { Membership } from '../core/cluster/membership.ts'
import { type ClusterNode, isUnreachable } from '../core/cluster/node.ts'
import type { Owned } from '../core/cluster/owner-store.ts'
import { isMigrating, NodeIsUnreachable, type RequestRouter } from '../core/cluster/request-router.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
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
  madeIn,
  type Refusal,
  refusalOf,
  reportMade,
  trailersOfHop,
} from './hop.ts'
import { type PeerConnections, PeerNotReached } from './peer-connections.ts'
import type { QueuedRequests } from './queued-requests.ts'
import { type ReadBody, readSmallBody } from './small-body.ts'

const retryAfterSeconds = 1
/** How often a request is sent again that its node may have seen. The request may be the reason why the node breaks off. */
const maxSentAgain = 2

type ForwarderParts = {
  membership: Pick<Membership, 'find'>
  router: RequestRouter
  connections: PeerConnections
  /** Requests that wait for a node which restarts. */
  queued: QueuedRequests
  log: Log
}

/** The body of a request, once it was read. */
type Asked = { body?: ReadBody }

type Attempt = {
  body?: Buffer | undefined
  needs: NeededCapacity | undefined
  attemptID?: string | undefined
}

export class ClusterForwarder implements Forwarder<HttpExchange> {
  readonly #parts: ForwarderParts

  constructor(parts: ForwarderParts) {
    this.#parts = parts
  }

  isFromPeer(request: IncomingMessage): boolean {
    return hopOf(request) !== undefined
  }

  async forward(what: Owned, exchange: HttpExchange): Promise<Forwarded> {
    if (!this.isFromPeer(exchange.request)) {
      const asked: Asked = {}
      return this.#queueing(exchange, asked, () => this.#forwardOnce(what, exchange, asked))
    }
    const answerer = await this.#parts.router.route(what, { isFromPeer: true })
    if (answerer === 'here') return 'here'
    this.refuseAsMisdirected(exchange)
    return 'answered'
  }

  /** Repeats work that fails because a node is away, as long as the request may wait for the node. */
  async #queueing<T>(exchange: HttpExchange, asked: Asked, work: () => Promise<T>): Promise<T> {
    const { queued } = this.#parts
    const since = queued.now()
    let signal: AbortSignal | undefined
    let sent = 0
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof NodeIsUnreachable)) throw error
        if (error.wasSent && ++sent > maxSentAgain) throw error
        const { nodeID, unreachableForMs, isKnownUnreachable } = error
        const bytes = asked.body instanceof Buffer ? asked.body.length : 0
        signal ??= untilClosed(exchange)
        if (!(await queued.untilBack({ nodeID, unreachableForMs, isKnownUnreachable, since, bytes, signal })))
          throw error
      }
    }
  }

  async #forwardOnce(what: Owned, exchange: HttpExchange, asked: Asked): Promise<Forwarded> {
    const { router } = this.#parts
    const remembered = await router.route(what, { isFromPeer: false })
    if (typeof remembered === 'string') {
      if (!(asked.body instanceof Buffer)) return remembered === 'misdirected' ? 'here' : remembered
      // The sandbox came to this node while the request waited, whose body was read.
      await this.#carryAgain(what, exchange, asked.body)
      return 'answered'
    }
    asked.body ??= await readSmallBody(exchange)
    const { body } = asked
    // A stream cannot be sent again, so its owner is looked up before.
    const answerer = body === 'stream' ? await router.routeByRow(what, remembered) : remembered
    if (typeof answerer === 'string') return answerer
    const refusal = await this.#carry(answerer, exchange, attemptWith(body))
    if (refusal !== undefined) await this.#carryAgain(what, exchange, body)
    return 'answered'
  }

  takeOver(sandboxID: string, options: { memory: boolean }): Promise<boolean> {
    return this.#parts.router.takeOver(sandboxID, options)
  }

  whyMissing(what: Owned, error: AppError): Promise<AppError | undefined> {
    return this.#parts.router.whyMissing(what, error)
  }

  async send(nodeID: string, exchange: HttpExchange, sent: SentBody): Promise<SendOutcome> {
    const node = await this.#parts.membership.find(nodeID)
    if (!node || isUnreachable(node)) return 'not reached'
    try {
      const refusal = await this.#carry(node, exchange, sent)
      return refusal === undefined ? 'answered' : 'no room'
    } catch (error) {
      if (!isAppError(error, 'unavailable')) throw error
      if (error instanceof NodeIsUnreachable) return 'not reached'
      if (sent.attemptID === undefined) throw error
      return 'lost'
    }
  }

  capacityNeeded(request: IncomingMessage): NeededCapacity | undefined {
    return hopOf(request)?.needs
  }

  attemptIDOf(request: IncomingMessage): string | undefined {
    return hopOf(request)?.attemptID
  }

  refuseAsMisdirected(exchange: HttpExchange): void {
    answerRefusal(exchange, 421, 'not the owner')
  }

  refuseForCapacity(exchange: HttpExchange): void {
    answerRefusal(exchange, 503, 'no room')
  }

  reportMade(exchange: HttpExchange, sandboxIDs: readonly string[]): void {
    if (this.isFromPeer(exchange.request)) reportMade(exchange, sandboxIDs)
  }

  /**
   * Sends the request to the present owner after a peer reported that it is not; if that is this node,
   * through its own inner door.
   */
  async #carryAgain(what: Owned, exchange: HttpExchange, body: ReadBody): Promise<void> {
    const node = await this.#parts.router.routeAgain(what)
    const isAnswered =
      body !== 'stream' && (await this.#carry(node, exchange, attemptWith(body))) === undefined
    if (!isAnswered) throw isMigrating(what)
  }

  /** A request of which the node has seen nothing, or that changes nothing, can be sent again. */
  #whyNoAnswer(node: ClusterNode, request: IncomingMessage, cause: Error): Error {
    if (cause instanceof MalformedHead) return cause
    const { nodeID } = node
    if (cause instanceof PeerNotReached || isSafe(request)) {
      const unreachableForMs = this.#parts.connections.unreachableForMs(node)
      const message = `Node ${nodeID} cannot be reached now. Nothing is lost; try again in a moment.`
      const wasSent = !(cause instanceof PeerNotReached)
      return new NodeIsUnreachable(
        { nodeID, unreachableForMs, isKnownUnreachable: false, wasSent },
        message,
        {
          afterSeconds: retryAfterSeconds,
          cause,
        },
      )
    }
    const message = `Node ${nodeID} broke off before it answered. It may have carried out the request; look before you try again.`
    return new AppError('unavailable', message, {
      cause,
      retry: { should: false, afterSeconds: retryAfterSeconds },
    })
  }

  /** Resolves when the answer has begun, or with the reason why the node does not answer. */
  #carry(node: ClusterNode, exchange: HttpExchange, attempt: Attempt): Promise<Refusal | undefined> {
    const { router, connections, log } = this.#parts
    const { request, response, upgrade, awaitsContinue } = exchange
    const { body, needs, attemptID } = attempt
    return new Promise((resolve, reject) => {
      const head = headForPeer(request, {
        awaitsContinue: awaitsContinue && body === undefined,
        upgrade: upgrade !== null,
        needs,
        attemptID,
        bodyLength: body?.length,
      })
      const tunnel: ClientRequestArgs['createConnection'] = (_options, callback) => {
        const done = callback as (error: Error | null, socket?: Socket) => void
        connections.dial(node).then((socket) => done(null, socket), done)
        return undefined
      }
      response.once('close', () => resolve(undefined))
      new HttpRelay({
        request,
        response,
        awaitsContinue,
        upgrade,
        head,
        body,
        target: {
          ...(upgrade ? { createConnection: tunnel } : { agent: connections.poolFor(node) }),
          path: request.url ?? '/',
        },
        answerHeaders: (raw, keepsTrailers) => {
          for (const sandboxID of madeIn(raw)) router.rememberMade(sandboxID, node.nodeID)
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
          reject(this.#whyNoAnswer(node, request, error))
        },
      })
    })
  }
}

const attemptWith = (body: ReadBody): Attempt => ({
  body: typeof body === 'string' ? undefined : body,
  needs: undefined,
})

/** Aborted when the client has gone. */
function untilClosed({ response }: HttpExchange): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  else response.once('close', () => gone.abort())
  return gone.signal
}

/** Safe to send twice. */
const isSafe = ({ method, headers }: IncomingMessage): boolean =>
  (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') &&
  headers['transfer-encoding'] === undefined &&
  headers['content-length'] === undefined
