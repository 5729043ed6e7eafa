/**
 * Relays one HTTP request to another server and the answer back, each direction at the speed of its reader. It knows no
 * access rules and no routes: the proxies that use it decide these, and answer their clients themselves.
 */
import {
  type ClientRequest,
  type ClientRequestArgs,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { joinSockets, resetSocket } from '../join-sockets.ts'
import { BodyFlow } from './body-flow.ts'
import { takeBulk } from './bulk.ts'
import type { ChunkPacer } from './chunk-pacer.ts'
import { discardBody } from './discard-body.ts'
import { type HeaderNames, headerValue, headText, type OutgoingHead } from './headers.ts'
import { relayInterimAnswers } from './interim-answers.ts'
import { isSmallAnswer, sendSmallAnswer } from './small-answer.ts'

/** The largest head that an answer may have. */
const maxHeaderBytes = 64 * 1024
/** Maximum number of headers, far above honest use: tens of thousands of empty ones would delay other requests. */
const maxHeaders = 2000

/** The request of a client, and the place for its answer. */
export type HttpExchange = {
  request: IncomingMessage
  response: ServerResponse
  /** The client waits for a 100 before it sends its body. */
  awaitsContinue: boolean
  /** For an upgrade request: returns the client's connection after the far side has agreed. */
  upgrade: Socket | null
}

type RelayOptions = HttpExchange & {
  head: OutgoingHead
  /** The path, and the agent or connection that leads to the far side. */
  target: ClientRequestArgs
  /** `keepsTrailers`: the answer may announce trailers. */
  answerHeaders(raw: readonly string[], keepsTrailers: boolean): string[]
  /** Names of trailers that do not cross; null: none cross. */
  ownTrailers: HeaderNames | null
  /** Shared by all messages of the same peer. */
  pacer: ChunkPacer
  /** Answers a client that has no answer yet that the far side gives none. */
  fail(error: Error): void
  /** The body to send; undefined: the client's own body. */
  body?: Buffer | undefined
  /** Returns true if the answer is not for the client; the relay then ends. */
  keepsAnswer?: ((answer: IncomingMessage) => boolean) | undefined
}

/** The message completes a sentence about the far side. */
export class MalformedAnswer extends Error {}

export class HttpRelay {
  readonly #options: RelayOptions
  #upstream: ClientRequest
  #hasLeftHttp = false

  /** Throws if Node's client rejects a request line or a header that Node's server accepts. */
  constructor(options: RelayOptions) {
    const { request, response } = options
    this.#options = options
    this.#upstream = this.#send(true)
    response.on('close', () => {
      if (!response.writableFinished) this.leave()
    })
    if (!options.head.hasBody || options.body) return
    request.on('close', () => {
      if (!request.complete) this.leave()
    })
  }

  /** True if the client has got the beginning of an answer, or bytes after an upgrade. */
  get hasAnswered(): boolean {
    return this.#hasLeftHttp || this.#options.response.headersSent
  }

  leave(): void {
    this.#upstream.destroy()
  }

  #send(firstTime: boolean): ClientRequest {
    const { request, response, head, target, body } = this.#options
    const { method } = request
    const upstream = httpRequest({
      ...target,
      method,
      headers: head.headers,
      maxHeaderSize: maxHeaderBytes,
    } as ClientRequestArgs)
    // Node silently drops headers beyond its limit. The limit is one more than ours, which shows that there are too many.
    upstream.maxHeadersCount = maxHeaders + 1
    upstream.on('error', (error) => {
      if (this.#isOver()) return
      // The far side closed an idle connection just as it was picked, and the request can be sent twice.
      const isStale = firstTime && upstream.reusedSocket && isConnectionLoss(error)
      if (isStale && (body || !head.hasBody) && isSafe(method)) this.#upstream = this.#send(false)
      else this.#options.fail(inWords(error))
    })
    upstream.on('response', (incoming) => {
      if (this.#options.keepsAnswer?.(incoming)) {
        incoming.on('error', () => {}).resume()
        return
      }
      this.#answer(upstream, incoming)
      if (head.hasBody && !body) incoming.on('end', () => stopSending(upstream))
    })
    relayInterimAnswers(upstream, this.#options)
    upstream.on('upgrade', (incoming, socket, first) => this.#leaveHttp(incoming, socket as Socket, first))
    if (!head.hasBody || body) upstream.end(body)
    else {
      // Begins only after the connection is open: bytes read before that would be lost if it were rejected.
      upstream.once('socket', () => {
        new BodyFlow(request, upstream, this.#options)
        // The client may still send when an early answer comes.
        upstream.once('close', () => discardBody(request, response))
      })
    }
    return upstream
  }

  /** True if the client has its answer already, or has disconnected. */
  #isOver(): boolean {
    const { request, response } = this.#options
    return response.headersSent || response.destroyed || request.socket.destroyed
  }

  #answer(upstream: ClientRequest, incoming: IncomingMessage): void {
    const options = this.#options
    const { request, response } = options
    const { rawHeaders } = incoming
    const status = incoming.statusCode ?? 502
    const keepsTrailers =
      options.ownTrailers !== null &&
      headerValue(rawHeaders, 'transfer-encoding') !== undefined &&
      request.httpVersionMinor === 1 &&
      request.method !== 'HEAD' &&
      status !== 204 &&
      status !== 304
    // The far side cut its answer off. A clean end would look like a complete answer.
    incoming.once('error', () => resetSocket(request.socket))
    try {
      // Node treats a 101 as an upgrade only if its headers name the protocol.
      if (status === 101) throw new MalformedAnswer('it left HTTP for nothing that it names')
      if (rawHeaders.length > 2 * maxHeaders) {
        throw new MalformedAnswer(`its answer has more than ${maxHeaders} headers`)
      }
      response.writeHead(status, incoming.statusMessage, options.answerHeaders(rawHeaders, keepsTrailers))
      const length = Number(headerValue(rawHeaders, 'content-length'))
      const flow = () => {
        takeBulk(upstream, incoming, length, response, new BodyFlow(incoming, response, options))
      }
      if (isSmallAnswer(length, status, request.method)) sendSmallAnswer(incoming, length, response, flow)
      else flow()
    } catch (error) {
      incoming.removeAllListeners('error').on('error', () => {})
      incoming.destroy()
      response.statusMessage = ''
      options.fail(error instanceof MalformedAnswer ? error : malformedHead(error))
    }
  }

  /** Raw bytes both ways after the far side agreed. */
  #leaveHttp(incoming: IncomingMessage, far: Socket, first: Buffer): void {
    const { response, upgrade: near, answerHeaders, fail } = this.#options
    if (!near) {
      far.destroy()
      fail(new MalformedAnswer('it left HTTP without being asked'))
      return
    }
    this.#hasLeftHttp = true
    response.detachSocket(near)
    const headers = answerHeaders(incoming.rawHeaders, false)
    headers.push('Connection', 'Upgrade', 'Upgrade', incoming.headers.upgrade ?? '')
    near.write(headText(101, incoming.statusMessage || 'Switching Protocols', headers), 'latin1')
    if (first.length > 0) far.unshift(first)
    joinSockets(near, far)
  }
}

/** After a complete answer Node no longer emits `drain` for the request, and nobody needs the rest of the body. */
function stopSending(upstream: ClientRequest): void {
  if (!upstream.writableFinished) upstream.destroy()
}

const malformedHead = (cause: unknown) => new MalformedAnswer('its answer has a malformed head', { cause })

/** Turns the codes of Node's parser into errors about the answer. */
function inWords(error: NodeJS.ErrnoException): Error {
  if (!error.code?.startsWith('HPE_')) return error
  if (error.code !== 'HPE_HEADER_OVERFLOW') return malformedHead(error)
  return new MalformedAnswer(`the head of its answer is larger than ${maxHeaderBytes} bytes`, {
    cause: error,
  })
}

function isConnectionLoss(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ECONNRESET' || error.code === 'EPIPE'
}

/** Methods that are safe to send twice. */
function isSafe(method: string | undefined): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
}
