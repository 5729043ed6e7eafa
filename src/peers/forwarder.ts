/** Forwards requests between the nodes of a cluster, each at most once. */
import type { ClientRequestArgs, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Forwarded, Forwarder, NeededRoom, SendOutcome, SentBody } from '../core/cluster/forwarder.ts'
import type { Membership } from '../core/cluster/membership.ts'
import { type ClusterNode, isAway } from '../core/cluster/node.ts'
import type { Owned } from '../core/cluster/owner-store.ts'
import { isMoving, type RequestRouter } from '../core/cluster/request-router.ts'
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
  tellMade,
  trailersOfHop,
} from './hop.ts'
import { type PeerConnections, PeerNotReached } from './peer-connections.ts'
import { type KeptBody, keepSmallBody } from './small-body.ts'

const retryAfterSeconds = 1

export type ForwarderParts = {
  membership: Pick<Membership, 'find'>
  router: RequestRouter
  connections: PeerConnections
  log: Log
}

type Attempt = {
  body?: Buffer | undefined
  needs: NeededRoom | undefined
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
    const { router } = this.#parts
    const asked = { isFromPeer: this.isFromPeer(exchange.request) }
    const remembered = await router.route(what, asked)
    if (remembered === 'here' || remembered === 'absent') return remembered
    if (remembered === 'misdirected') {
      this.refuseAsMisdirected(exchange)
      return 'answered'
    }
    const kept = await keepSmallBody(exchange)
    // A stream cannot be sent again, so its owner is looked up before.
    const answerer = kept === 'stream' ? await router.routeByRow(what, remembered) : remembered
    if (typeof answerer === 'string') return answerer
    const refusal = await this.#carry(answerer, exchange, attemptWith(kept))
    if (refusal !== undefined) await this.#carryAgain(what, exchange, kept)
    return 'answered'
  }

  takeOver(sandboxID: string, options: { memory: boolean }): Promise<void> {
    return this.#parts.router.takeOver(sandboxID, options)
  }

  whyMissing(what: Owned): Promise<AppError | undefined> {
    return this.#parts.router.whyMissing(what)
  }

  async send(nodeID: string, exchange: HttpExchange, sent: SentBody): Promise<SendOutcome> {
    const node = await this.#parts.membership.find(nodeID)
    if (!node || isAway(node)) return 'not reached'
    try {
      const refusal = await this.#carry(node, exchange, sent)
      return refusal === undefined ? 'answered' : 'no room'
    } catch (error) {
      if (!isAppError(error, 'unavailable')) throw error
      if (error.cause instanceof PeerNotReached) return 'not reached'
      if (sent.attemptID === undefined) throw error
      return 'lost'
    }
  }

  roomNeeded(request: IncomingMessage): NeededRoom | undefined {
    return hopOf(request)?.needs
  }

  attemptIDOf(request: IncomingMessage): string | undefined {
    return hopOf(request)?.attemptID
  }

  refuseAsMisdirected(exchange: HttpExchange): void {
    answerRefusal(exchange, 421, 'not the owner')
  }

  refuseForRoom(exchange: HttpExchange): void {
    answerRefusal(exchange, 503, 'no room')
  }

  tellMade(exchange: HttpExchange, sandboxIDs: readonly string[]): void {
    if (this.isFromPeer(exchange.request)) tellMade(exchange, sandboxIDs)
  }

  /**
   * Sends the request to the present owner after a peer reported that it is not; if that is this node,
   * through its own inner door.
   */
  async #carryAgain(what: Owned, exchange: HttpExchange, kept: KeptBody): Promise<void> {
    const node = await this.#parts.router.routeAgain(what)
    const isAnswered =
      kept !== 'stream' && (await this.#carry(node, exchange, attemptWith(kept))) === undefined
    if (!isAnswered) throw isMoving(what)
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
          reject(noAnswer(node, error))
        },
      })
    })
  }
}

const attemptWith = (kept: KeptBody): Attempt => ({
  body: typeof kept === 'string' ? undefined : kept,
  needs: undefined,
})

const noAnswer = ({ nodeID }: ClusterNode, cause: unknown): AppError | MalformedHead =>
  cause instanceof MalformedHead
    ? cause
    : new AppError('unavailable', `Node ${nodeID} did not answer; try again in a moment.`, {
        cause,
        retry: { should: true, afterSeconds: retryAfterSeconds },
      })
