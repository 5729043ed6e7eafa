/** Carries one request to a sandbox and the answer back, each direction as fast as its reader. */
import {
  type ClientRequest,
  type ClientRequestArgs,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { resetSocket } from '../lib/join-sockets.ts'
import { noteSpent } from '../lib/spent-buffers.ts'
import {
  discardBody,
  portClosed,
  routingFailed,
  sandboxNotFound,
  sendAnswer,
  upstreamFailed,
} from './answers.ts'
import { takeBulk } from './bulk.ts'
import { PortClosed } from './dial.ts'
import { requestHeaders, responseHeaders, trailerPairs } from './headers.ts'
import type { SandboxDestination } from './host.ts'
import type { Run } from './run.ts'
import { tunnel } from './tunnel.ts'

/** Of the answers that come from a sandbox. */
const maxHeaderBytes = 64 * 1024
/** Up to here a body is cheaper to copy than to write by itself. */
const smallBody = 4096

export type Exchange = {
  run: Run
  request: IncomingMessage
  response: ServerResponse
  destination: SandboxDestination
  /** The client waits for a 100 before it sends its body. */
  awaitsContinue: boolean
  /** The client asks to leave HTTP: its connection, when the sandbox agrees. */
  upgrade: Socket | null
  log: EdgeLog
}

export type EdgeLog = { debug(fields: Record<string, unknown>, message: string): void }

type Head = { headers: string[]; hasBody: boolean }
type Attempt = { upstream: ClientRequest | null }

/** How to stop the exchange when the run ends under it. */
export type Cut = () => void

export function forward(exchange: Exchange): Cut {
  const { request, response, destination } = exchange
  const head = requestHeaders(request, {
    ownHost: destination.ownHost,
    maskHost: exchange.run.maskHost(destination.port),
    awaitsContinue: exchange.awaitsContinue,
    upgrade: exchange.upgrade !== null,
  })
  if (head.refusal) {
    sendAnswer(request, response, head.refusal)
    return () => {}
  }
  const attempt: Attempt = { upstream: null }
  try {
    send(exchange, head, attempt, true)
  } catch (error) {
    // Node refuses some request lines that its server lets in.
    exchange.log.debug({ error, sandboxID: destination.sandboxID }, 'request could not be forwarded')
    sendAnswer(request, response, routingFailed('the request line or a header is malformed'))
    return () => {}
  }
  const leave = () => attempt.upstream?.destroy()
  response.once('close', () => {
    if (!response.writableFinished) leave()
  })
  request.once('close', () => {
    if (!request.complete) leave()
  })
  return () => {
    // While nothing has reached the sandbox a plain answer is kinder than a reset.
    if (attempt.upstream?.socket || response.headersSent) resetSocket(request.socket)
    else sendAnswer(request, response, sandboxNotFound(destination.sandboxID))
    leave()
  }
}

function send(exchange: Exchange, head: Head, attempt: Attempt, firstTime: boolean): void {
  const { run, request, response, destination, upgrade } = exchange
  const { port, path, ownHost } = destination
  const upstream = httpRequest({
    ...(upgrade ? { createConnection: tunnelSocket(run, port) } : { agent: run.agent }),
    port,
    path,
    method: request.method,
    headers: head.headers,
    maxHeaderSize: maxHeaderBytes,
  })
  attempt.upstream = upstream
  upstream.on('error', (error) => {
    // The service closed an idle connection just as it was picked.
    const stale = firstTime && upstream.reusedSocket && !head.hasBody && isSafe(request.method)
    if (stale && !isOver(exchange)) send(exchange, head, attempt, false)
    else if (!isOver(exchange)) fail(exchange, error)
  })
  upstream.on('response', (incoming) => {
    relayResponse(exchange, incoming)
    incoming.once('end', () => stopSending(request, upstream))
    takeBulk(upstream, incoming, response)
  })
  upstream.on('information', (information) => relayInformation(exchange, information))
  upstream.on('upgrade', (incoming, socket, first) => {
    if (upgrade) {
      response.detachSocket(upgrade)
      tunnel({ client: upgrade, sandbox: socket as Socket, incoming, first, ownHost })
    } else {
      socket.destroy()
      fail(exchange, new Error('the service left HTTP without being asked'))
    }
  })
  if (!head.hasBody) upstream.end()
  else {
    // Only once connected: what is taken from the client before that would be lost with a refused connection.
    upstream.once('socket', () => flow(request, upstream))
    // An early answer may leave a client that still sends.
    upstream.once('close', () => discardBody(request, response))
  }
}

/** Once an answer is whole Node no longer tells when more of the request can be written: nobody wants the rest. */
function stopSending(request: IncomingMessage, upstream: ClientRequest): void {
  if (upstream.writableFinished) return
  request.unpipe(upstream)
  upstream.destroy()
}

/** Tunnels may close one direction alone, so their connections are not from the pool. */
function tunnelSocket(run: Run, port: number): ClientRequestArgs['createConnection'] {
  return (_options, callback) => {
    const done = callback as (error: Error | null, socket?: Socket) => void
    run.dial(port, true).then((socket) => done(null, socket), done)
    return undefined
  }
}

/** Answered already, or nobody is left to answer. */
function isOver({ request, response }: Exchange): boolean {
  return response.headersSent || response.destroyed || request.socket.destroyed
}

/** Safe to send twice. */
function isSafe(method: string | undefined): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
}

function fail({ request, response, destination, log }: Exchange, error: Error): void {
  const { sandboxID, port } = destination
  const closed = error instanceof PortClosed
  if (!closed) log.debug({ error, sandboxID, port }, 'sandbox did not answer')
  sendAnswer(request, response, closed ? portClosed(sandboxID, port) : upstreamFailed(sandboxID, port))
}

function relayResponse({ request, response, destination, log }: Exchange, incoming: IncomingMessage): void {
  const { sandboxID, port, ownHost } = destination
  const status = incoming.statusCode ?? 502
  const chunked =
    incoming.headers['transfer-encoding'] !== undefined &&
    request.httpVersionMinor === 1 &&
    request.method !== 'HEAD' &&
    status !== 204 &&
    status !== 304
  // Cut off on the sandbox's side: a clean end would pass for a whole answer.
  incoming.once('error', () => resetSocket(request.socket))
  try {
    response.writeHead(status, incoming.statusMessage, responseHeaders(incoming, ownHost, { chunked }))
    if (isSmall(incoming) && request.method !== 'HEAD') flowSmall(incoming, response)
    else flow(incoming, response)
  } catch (error) {
    log.debug({ error, sandboxID, port }, 'answer with a malformed head')
    incoming.removeAllListeners('error').on('error', () => {})
    incoming.destroy()
    response.statusMessage = ''
    sendAnswer(request, response, upstreamFailed(sandboxID, port))
  }
}

function isSmall({ headers }: IncomingMessage): boolean {
  const length = Number(headers['content-length'])
  return length > 0 && length <= smallBody
}

/** Head and body leave as one piece if the body comes as one. */
function flowSmall(incoming: IncomingMessage, response: ServerResponse): void {
  let begun = false
  incoming.once('data', (chunk: Buffer) => {
    begun = true
    if (chunk.length === Number(incoming.headers['content-length'])) {
      noteSpent(chunk.length)
      // Node joins a head with text, but writes a buffer beside it.
      response.end(chunk.toString('latin1'), 'latin1')
    } else {
      incoming.unshift(chunk)
      flow(incoming, response)
    }
  })
  flushUnless(() => begun, response)
}

/** 100 answers a client that waits; other interim answers are handed on as they are. */
function relayInformation(
  { request, response, awaitsContinue, destination }: Exchange,
  info: Information,
): void {
  const isNext = response.socket !== null && !response.headersSent && request.httpVersionMinor === 1
  if (!isNext) return
  if (info.statusCode === 100) {
    if (awaitsContinue) response.writeContinue()
    return
  }
  const headers = responseHeaders(info, destination.ownHost, { chunked: false })
  let text = `HTTP/1.1 ${info.statusCode} ${info.statusMessage}\r\n`
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
  response.socket!.write(`${text}\r\n`, 'latin1')
}

type Information = { statusCode: number; statusMessage: string; rawHeaders: string[] }

/** Streams a body with its trailers. The head goes out with the first piece, or by itself if that takes long. */
function flow(source: IncomingMessage, sink: ClientRequest | ServerResponse): void {
  let begun = false
  source.on('data', (chunk: Buffer) => {
    begun = true
    noteSpent(chunk.length)
  })
  source.once('end', () => {
    if (source.rawTrailers.length > 0) addTrailers(sink, source.rawTrailers)
  })
  source.pipe(sink)
  flushUnless(() => begun, sink)
}

function flushUnless(hasBegun: () => boolean, sink: ClientRequest | ServerResponse): void {
  setImmediate(() => {
    if (!hasBegun() && !sink.writableEnded && !sink.destroyed) sink.flushHeaders()
  })
}

function addTrailers(sink: ClientRequest | ServerResponse, rawTrailers: string[]): void {
  try {
    sink.addTrailers(trailerPairs(rawTrailers))
  } catch {
    // Malformed trailers are dropped; the body before them is whole.
  }
}
