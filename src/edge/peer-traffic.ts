/** Traffic for sandboxes of other nodes of the cluster. Unused without a cluster. */
import type { IncomingMessage } from 'node:http'
import { envdPort } from '../contract/constants.ts'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import { isMigrating } from '../core/cluster/request-router.ts'
import type { FindDemand } from '../core/sandbox/network/resumable-route.ts'
import { isAppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import { rejectionOf, wakeRejectionOf } from './access.ts'
import { type EdgeAnswer, nodeUnreachable, sandboxNotFound, sendAnswer, unknownSignature } from './answers.ts'
import type { SandboxDestination } from './host.ts'
import { isSignature } from './signed-file.ts'

/** Finds the sandbox of a signed file URL on other nodes. Undefined also for requests from a peer. */
export type FindSigned = (request: IncomingMessage, path: string) => Promise<string | undefined>

/** Without a cluster there is nothing to take over. */
export type EdgeForwarder = Pick<Forwarder<HttpExchange>, 'forward'> &
  Partial<Pick<Forwarder<HttpExchange>, 'takeOver'>>

type PeerTrafficParts = {
  forwarder: EdgeForwarder
  findDemand: FindDemand | undefined
  findSigned: FindSigned | undefined
  log: Log
}

export class PeerTraffic {
  readonly #parts: PeerTrafficParts

  constructor(parts: PeerTrafficParts) {
    this.#parts = parts
  }

  /**
   * Never rejects. True: another node answers the request. False: no node has the sandbox, or this one has it
   * now.
   */
  async forward(exchange: HttpExchange, destination: SandboxDestination): Promise<boolean | EdgeAnswer> {
    const { forwarder, log } = this.#parts
    const { sandboxID } = destination
    const what = { kind: 'sandbox', id: sandboxID } as const
    try {
      let forwarded = await forwarder.forward(what, exchange)
      if (forwarded !== 'absent') return forwarded === 'answered'
      const rejection = await this.#rejectionOf(exchange.request, destination)
      if (rejection) return rejection
      if (!forwarder.takeOver || (await forwarder.takeOver(sandboxID, { memory: true }))) return false
      forwarded = await forwarder.forward(what, exchange)
      if (forwarded === 'absent') throw isMigrating(what)
      return forwarded === 'answered'
    } catch (error) {
      log.debug({ error, sandboxID }, 'could not reach the node of a sandbox')
      return this.#explain(exchange.request, destination, error)
    }
  }

  /**
   * For a sandbox whose node cannot answer: returns the rejection that the node itself would have sent, if
   * any.
   */
  async #rejectionOf(request: IncomingMessage, destination: SandboxDestination): Promise<EdgeAnswer | null> {
    const demand = await this.#parts.findDemand?.(destination.sandboxID)
    if (!demand || (demand.isPaused && !demand.mayWake)) return sandboxNotFound(destination.sandboxID)
    return demand.isPaused
      ? wakeRejectionOf(request, destination, demand, systemClock.now())
      : rejectionOf(request, destination, demand)
  }

  async #explain(
    request: IncomingMessage,
    destination: SandboxDestination,
    error: unknown,
  ): Promise<EdgeAnswer> {
    const answer = nodeUnreachable(destination.sandboxID, destination.port, error)
    if (!isAppError(error)) return answer
    // If the database does not answer, nothing is known of the sandbox, so nothing is revealed.
    return (await this.#rejectionOf(request, destination).catch(() => null)) ?? answer
  }

  mayHaveFile(path: string): boolean {
    return this.#parts.findSigned !== undefined && isSignature(path)
  }

  /** Answers a signed URL that fits no sandbox of this node. */
  async answerSigned(exchange: HttpExchange, path: string): Promise<void> {
    const { request, response } = exchange
    const rejection = await this.#forwardSigned(exchange, path).catch((error) =>
      nodeUnreachable('', envdPort, error),
    )
    if (rejection && !request.socket.destroyed) sendAnswer(request, response, rejection)
  }

  /** Undefined if another node answers the request. */
  async #forwardSigned(exchange: HttpExchange, path: string): Promise<EdgeAnswer | undefined> {
    const sandboxID = await this.#parts.findSigned?.(exchange.request, path)
    if (sandboxID === undefined) return unknownSignature
    const { forwarder } = this.#parts
    // A signature alone does not find a paused sandbox, on any node.
    const forwarded = await forwarder.forward({ kind: 'sandbox', id: sandboxID }, exchange)
    return forwarded === 'answered' ? undefined : unknownSignature
  }
}
