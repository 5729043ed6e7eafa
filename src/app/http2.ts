/**
 * HTTP/2 at the listener only: each of its streams becomes an HTTP/1.1 request on a connection that never
 * leaves the process, so that API and edge handle one protocol. Upgrades (WebSockets) are not offered here,
 * so clients use HTTP/1.1 for them.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { constants, createServer, type Http2Session, type ServerHttp2Stream } from 'node:http2'
import type { Server as HttpsServer } from 'node:https'
import { type Duplex, duplexPair } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { systemClock } from '../lib/clock.ts'
import { hopByHop } from '../lib/http-relay/hop-by-hop.ts'
import { takeHttp1Parser } from '../lib/node-internals/http1-listener.ts'

export const alpnProtocols = ['h2', 'http/1.1']

const idleSessionMs = 310_000
const quietSessionMs = 250
const lingerMs = 10_000
const maxHeaderBytes = 64 * 1024
/** Every head that was accepted must also fit here: the encoder counts twelve extra bytes for each header. */
const mostAnswerHeadBytes = 8 * maxHeaderBytes

export type Http2Connections = {
  /**
   * Ends each connection once it was quiet for a moment. Not right after an answer: a client that is sending its next
   * request, or still reading, would take the end for a failure.
   */
  askToLeave(): void
  /** Rejects new streams; open ones may end. */
  close(): void
  /** Ends connections without a stream. */
  closeIdle(): void
  /** Cuts all connections. */
  destroy(): void
}

/** Takes over the connections of a server that chose HTTP/2. */
export function openHttp2(server: HttpsServer): Http2Connections {
  const accept = takeHttp1Parser(server)
  const http2 = createServer({
    maxHeaderListPairs: 600,
    maxSendHeaderBlockLength: mostAnswerHeadBytes,
    // Passes a service's repeated headers on, as over HTTP/1.1.
    strictSingleValueFields: false,
    settings: { maxConcurrentStreams: 250, initialWindowSize: 512 * 1024, maxHeaderListSize: maxHeaderBytes },
  })
  const sessions = new Map<Http2Session, SessionStreams>()
  let closeAfterMs = idleSessionMs
  http2.on('session', (session) => {
    const streams: SessionStreams = { open: 0, waiting: [] }
    sessions.set(session, streams)
    session.once('close', () => sessions.delete(session))
    session.on('error', () => {})
    session.setLocalWindowSize(4 * 1024 * 1024)
    session.on('timeout', () => streams.open === 0 && session.close())
    session.setTimeout(closeAfterMs)
  })
  http2.on('stream', (stream, _headers, _flags, rawHeaders) => {
    const streams = sessions.get(stream.session!)
    if (!streams) return stream.destroy()
    streams.open += 1
    stream.once('close', () => {
      streams.open -= 1
    })
    stream.on('error', () => {})
    // The type is wrong: it is a list in which names and values alternate.
    const begin = () => stream.destroyed || carry(stream, rawHeaders as unknown as string[], accept)
    if (streams.waiting.push(begin) === 1) setImmediate(beginNext, streams.waiting)
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.alpnProtocol === 'h2') http2.emit('connection', socket)
    else accept(socket)
  })
  return {
    askToLeave: () => {
      closeAfterMs = quietSessionMs
      sessions.forEach((_, session) => void session.setTimeout(closeAfterMs))
    },
    close: () => sessions.forEach((_, session) => void session.close()),
    closeIdle: () => sessions.forEach(({ open }, session) => void (open === 0 && session.close())),
    destroy: () => sessions.forEach((_, session) => void session.destroy(new Error('Warren is closing'))),
  }
}

type SessionStreams = {
  open: number
  /** Streams that were opened and have not begun. */
  waiting: (() => void)[]
}

/**
 * Begins one stream in each turn of the event loop, so that a session that opens hundreds at once blocks
 * nobody else.
 */
function beginNext(waiting: (() => void)[]): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(beginNext, waiting)
}

function carry(stream: ServerHttp2Stream, rawHeaders: string[], accept: (socket: Duplex) => void): void {
  const { method, path, headers, expects } = headOf(stream, rawHeaders)
  if (method === undefined || path === undefined || headers === null) {
    refuse(stream)
    return
  }
  const [near, far] = duplexPair()
  const { remoteAddress } = stream.session!.socket
  accept(Object.assign(far, { encrypted: true, remoteAddress }))
  near.once('close', () => far.destroy())
  far.once('close', () => near.destroy())
  let request: ClientRequest
  try {
    const maxHeaderSize = 2 * maxHeaderBytes
    request = httpRequest({ method, path, headers, maxHeaderSize, createConnection: () => near })
  } catch {
    near.destroy()
    refuse(stream)
    return
  }
  // By default Node drops headers after the first thousand: the last are the edge's own.
  request.maxHeadersCount = 0
  request.on('error', () => {
    if (!stream.writableEnded) breakOff(stream)
  })
  request.on('response', (incoming) => answer(stream, request, incoming, method))
  stream.once('close', () => near.destroy())
  if (expects) stream.additionalHeaders({ ':status': 100 })
  if (stream.endAfterHeaders) request.end()
  else stream.pipe(request)
}

type Head = {
  method: string | undefined
  path: string | undefined
  /** Null if they contradict each other. */
  headers: string[] | null
  expects: boolean
}

function headOf(stream: ServerHttp2Stream, rawHeaders: string[]): Head {
  const pseudo = new Map<string, string>()
  const headers: string[] = []
  const cookies: string[] = []
  let host: string | undefined
  let expects = false
  let framed = stream.endAfterHeaders
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!
    const value = rawHeaders[i + 1]!
    if (name.startsWith(':')) pseudo.set(name, value)
    else if (name === 'host') host = value
    else if (name === 'cookie') cookies.push(value)
    else if (name === 'expect') expects = true
    else {
      if (name === 'content-length') framed = true
      headers.push(name, value)
    }
  }
  const authority = pseudo.get(':authority') ?? host
  if (cookies.length > 0) headers.push('cookie', cookies.join('; '))
  if (!framed) headers.push('transfer-encoding', 'chunked')
  headers.push('connection', 'close')
  const contradicts = authority === undefined || (host !== undefined && host !== authority)
  return {
    method: pseudo.get(':method'),
    path: pseudo.get(':path'),
    headers: contradicts ? null : ['host', authority, ...headers],
    expects,
  }
}

function answer(
  stream: ServerHttp2Stream,
  request: ClientRequest,
  incoming: IncomingMessage,
  method: string,
): void {
  if (stream.destroyed) {
    incoming.destroy()
    return
  }
  const status = incoming.statusCode ?? 502
  // Without a prototype: a header may be called `__proto__`.
  const headers: Record<string, string | number | string[]> = Object.create(null)
  headers[':status'] = status
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    if (!hopByHop.has(name)) headers[name] = values!.length === 1 ? values![0]! : values!
  }
  let left = Number(incoming.headers['content-length'] ?? Number.POSITIVE_INFINITY)
  // A separate end of the stream would be an empty frame, of which some clients tolerate only a few.
  const endStream = method === 'HEAD' || status === 204 || status === 304 || left === 0
  const waitForTrailers = !endStream && incoming.headers.trailer !== undefined
  try {
    stream.respond(headers, { endStream, waitForTrailers })
  } catch {
    breakOff(stream)
    return
  }
  stream.once('wantTrailers', () => stream.sendTrailers(incoming.trailers as Record<string, string>))
  incoming.on('error', () => breakOff(stream))
  incoming.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left <= 0) stream.end(chunk)
    else if (!stream.write(chunk)) {
      incoming.pause()
      stream.once('drain', () => incoming.resume())
    }
  })
  incoming.once('end', () => {
    if (!stream.writableEnded) stream.end()
    if (!stream.readableEnded) discard(stream, request)
  })
}

/** Keeps reading, so that a client that is still sending sees the answer, but not for long. */
function discard(stream: ServerHttp2Stream, request: ClientRequest): void {
  stream.unpipe(request)
  stream.resume()
  const cancel = systemClock.after(lingerMs, () => stream.close(constants.NGHTTP2_NO_ERROR))
  stream.once('close', cancel)
}

/** Not by closing: that would first end the answer, which would then look complete. */
function breakOff(stream: ServerHttp2Stream): void {
  stream.destroy(new Error('the answer was cut off'))
}

function refuse(stream: ServerHttp2Stream): void {
  stream.respond({ ':status': 400, 'content-type': 'text/plain; charset=utf-8' })
  stream.end('Invalid request')
}
