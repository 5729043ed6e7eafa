/** Traffic for sandboxes that other nodes of the cluster have. A Warren on its own has none of this. */
import type { IncomingMessage } from 'node:http'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import { type EdgeAnswer, nodeUnreachable, sendAnswer, unknownSignature } from './answers.ts'
import { isSignature } from './signed-file.ts'

/** Finds the sandbox that a signed file URL is for on other nodes; undefined also where a peer asks. */
export type FindSigned = (request: IncomingMessage, path: string) => Promise<string | undefined>

export type PeerTrafficParts = {
  forwarder: Pick<Forwarder, 'forward'>
  findSigned: FindSigned | undefined
  log: Log
}

export class PeerTraffic {
  readonly #parts: PeerTrafficParts

  constructor(parts: PeerTrafficParts) {
    this.#parts = parts
  }

  /** Never rejects. True: another node answers it. False: none has the sandbox. */
  async forward(exchange: HttpExchange, sandboxID: string): Promise<boolean | EdgeAnswer> {
    const { forwarder, log } = this.#parts
    try {
      return await forwarder.forward({ kind: 'sandbox', id: sandboxID }, exchange)
    } catch (error) {
      log.debug({ error, sandboxID }, 'could not reach the node of a sandbox')
      return nodeUnreachable(sandboxID, error)
    }
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
    const forwarded = await this.forward(exchange, sandboxID)
    return forwarded === true ? undefined : forwarded || unknownSignature
  }
}
