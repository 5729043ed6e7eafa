/** Traffic for sandboxes that other nodes of the cluster have. A Warren on its own has none of this. */
import type { IncomingMessage } from 'node:http'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import type { FindDemand } from '../core/sandbox/network/resumable-route.ts'
import { isAppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import { rejectionOf, wakeRejectionOf } from './access.ts'
import { type EdgeAnswer, nodeUnreachable, sandboxNotFound, sendAnswer, unknownSignature } from './answers.ts'
import type { SandboxDestination } from './host.ts'
import { isSignature } from './signed-file.ts'

/** Finds the sandbox that a signed file URL is for on other nodes; undefined also where a peer asks. */
export type FindSigned = (request: IncomingMessage, path: string) => Promise<string | undefined>

/** A Warren on its own has nothing to take over. */
export type EdgeForwarder = Pick<Forwarder<HttpExchange>, 'forward'> &
  Partial<Pick<Forwarder<HttpExchange>, 'takeOver'>>

export type PeerTrafficParts = {
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

  /** Never rejects. True: another node answers it. False: none has the sandbox, or this one has it now. */
  async forward(exchange: HttpExchange, destination: SandboxDestination): Promise<boolean | EdgeAnswer> {
    const { forwarder, log } = this.#parts
    const { sandboxID } = destination
    try {
      const forwarded = await forwarder.forward({ kind: 'sandbox', id: sandboxID }, exchange)
      if (forwarded !== 'absent') return forwarded === 'answered'
      const rejection = await this.#rejectionOf(exchange.request, destination)
      if (rejection) return rejection
      await forwarder.takeOver?.(sandboxID, { memory: true })
      return false
    } catch (error) {
      log.debug({ error, sandboxID }, 'could not reach the node of a sandbox')
      return this.#explain(exchange.request, destination, error)
    }
  }

  /** The node of the sandbox cannot answer. Who would be rejected by it is rejected here, in the same words. */
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
    const answer = nodeUnreachable(destination.sandboxID, error)
    if (!isAppError(error)) return answer
    // Where the database does not answer, nothing is known of the sandbox, and so nothing is told of it.
    return (await this.#rejectionOf(request, destination).catch(() => null)) ?? answer
  }

  mayHaveFile(path: string): boolean {
    return this.#parts.findSigned !== undefined && isSignature(path)
  }

  /** No sandbox of this node fits the signature. */
  async answerSigned(exchange: HttpExchange, path: string): Promise<void> {
    const { request, response } = exchange
    const rejection = await this.#forwardSigned(exchange, path).catch((error) => nodeUnreachable('', error))
    if (rejection && !request.socket.destroyed) sendAnswer(request, response, rejection)
  }

  /** Undefined: another node answers it. */
  async #forwardSigned(exchange: HttpExchange, path: string): Promise<EdgeAnswer | undefined> {
    const sandboxID = await this.#parts.findSigned?.(exchange.request, path)
    if (sandboxID === undefined) return unknownSignature
    const { forwarder } = this.#parts
    // A paused sandbox is not found by a signature alone, wherever it is.
    const forwarded = await forwarder.forward({ kind: 'sandbox', id: sandboxID }, exchange)
    return forwarded === 'answered' ? undefined : unknownSignature
  }
}
