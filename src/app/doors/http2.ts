/**
 * HTTP/2 at the listener only: each of its streams becomes an HTTP/1.1 request on a connection that never
 * leaves the process, so that API and edge handle one protocol. Upgrades (WebSockets) are not offered here,
 * so clients use HTTP/1.1 for them.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { constants, createServer, type ServerHttp2Stream } from 'node:http2'
import type { Server as HttpsServer } from 'node:https'
import { type Duplex, duplexPair } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { systemClock } from '../../lib/clock.ts'
import { hopByHop } from '../../lib/http-relay/hop-by-hop.ts'
import { takeHttp1Parser } from '../../lib/node-internals/http1-listener.ts'
import { Http2Sessions } from './http2-sessions.ts'
import { UnreadAnswers } from './unread-answers.ts'

export const alpnProtocols = ['h2', 'http/1.1']

const idleSessionMs = 310_000
const lingerMs = 10_000
const maxHeaderBytes = 64 * 1024
/** Every head that was accepted must also fit here: the encoder counts twelve extra bytes for each header. */
const maxAnswerHeadBytes = 8 * maxHeaderBytes

/** Takes over the connections of a server that chose HTTP/2. */
export function openHttp2(server: HttpsServer): Http2Sessions {
  const accept = takeHttp1Parser(server)
  const http2 = createServer({
    maxHeaderListPairs: 600,
    maxSendHeaderBlockLength: maxAnswerHeadBytes,
    // Passes a service's repeated headers on, as over HTTP/1.1.
    strictSingleValueFields: false,
    settings: { maxConcurrentStreams: 250, initialWindowSize: 512 * 1024, maxHeaderListSize: maxHeaderBytes },
  })
  const sessions = new Http2Sessions(systemClock)
  const unread = new UnreadAnswers()
  http2.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => {})
    session.setLocalWindowSize(4 * 1024 * 1024)
    session.on('timeout', () => sessions.endIdle(session))
    session.setTimeout(idleSessionMs)
  })
  http2.on('stream', (stream, _headers, _flags, rawHeaders) => {
    const { session } = stream
    if (!session || session.destroyed) return stream.destroy()
    stream.on('error', () => {})
    // Node's type of the raw headers is wrong: they are a list in which names and values alternate.
    const head = rawHeaders as unknown as string[]
    sessions.begin(session, stream, () => stream.destroyed || carry(stream, head, accept, unread))
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.alpnProtocol === 'h2') http2.emit('connection', socket)
    else accept(socket)
  })
  return sessions
}

function carry(
  stream: ServerHttp2Stream,
  rawHeaders: string[],
  accept: (socket: Duplex) => void,
  unread: UnreadAnswers,
): void {
  const { method, path, headers, expects } = headOf(stream, rawHeaders)
  if (method === undefined || path === undefined || headers === null) {
    refuse(stream)
    return
  }
  const [near, far] = duplexPair()
  const session = stream.session!
  const { remoteAddress } = session.socket
  accept(Object.assign(far, { encrypted: true, remoteAddress, carrier: session }))
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
  request.on('response', (incoming) => {
    const buffered = () =>
      [far, stream].reduce((sum, { writableLength }) => sum + writableLength, 0) +
      [near, incoming].reduce((sum, { readableLength }) => sum + readableLength, 0)
    answer(stream, request, incoming, { method, stall: () => unread.add(session, buffered()) })
  })
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

/** The client has read what was written, or has left. */
const readEvents = ['drain', 'finish', 'close']

type AnswerOptions = {
  method: string
  /** Called when the client does not read. Returns what to call when it does, or has left. */
  stall: () => () => void
}

function answer(
  stream: ServerHttp2Stream,
  request: ClientRequest,
  incoming: IncomingMessage,
  { method, stall }: AnswerOptions,
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
    else if (!stream.write(chunk)) incoming.pause()
    if (stream.writableLength < stream.writableHighWaterMark) return
    // What came with this chunk is buffered by then.
    let read = () => {}
    setImmediate(() => {
      if (stream.writableLength > 0 && !stream.destroyed) read = stall()
    })
    const goOn = () => {
      for (const event of readEvents) stream.off(event, goOn)
      read()
      incoming.resume()
    }
    for (const event of readEvents) stream.once(event, goOn)
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
