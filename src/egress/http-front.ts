/**
 * Requests in the clear, or out of a TLS connection that the gate itself ended: each one is judged for itself by
 * the host it names, gets the headers its rule says, and goes out in words of the gate's own.
 */
import {
  type Agent,
  type ClientRequest,
  type ClientRequestArgs,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import type { SecretReader } from '../core/egress.ts'
import { errorText } from '../lib/app-error.ts'
import { joinSockets, resetSocket } from '../lib/join-sockets.ts'
import type { Log } from '../lib/log.ts'
import { noteSpent } from '../lib/spent-buffers.ts'
import type { Connection } from './clients.ts'
import { decide, type IsClosed, type Route, ruleFor } from './decide.ts'
import { type RequestHead, requestHead, responseHeaders } from './headers.ts'
import { fillHeaders } from './placeholders.ts'
import { badRequest, noNameSent, notAllowed, Refusal, unreachable } from './refusal.ts'
import { type RequestTarget, requestTarget } from './request-target.ts'
import { createUpstreams, dropIdle, type UpstreamOptions } from './upstreams.ts'

export type HttpFrontOptions = UpstreamOptions & {
  isClosed: IsClosed
  secrets: SecretReader
  log: Log
  /** From a connection's start, or the end of an answer, to the end of the next request's head. */
  headMs: number
}

export type HttpFront = {
  /** `secureName`: the host the gate stood in for; requests for others are not taken. */
  serve(connection: Connection, socket: Socket, secureName: string | null): void
}

type Session = {
  connection: Connection
  secureName: string | null
  agent: Agent
  underWay: number
  stopWaiting: () => void
}

const maxHeaderBytes = 64 * 1024
/** Requests sent ahead on one connection. */
const mostUnderWay = 64

export function createHttpFront(options: HttpFrontOptions): HttpFront {
  const sessions = new WeakMap<object, Session>()
  const server = createServer({
    maxHeaderSize: maxHeaderBytes,
    requireHostHeader: false,
    // Other upgrades are an offer that may be ignored.
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
  })
  // The session's own deadline counts.
  server.keepAliveTimeout = 0
  // A client that has said all may still listen.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('request', (request, response) => handle(sessionOf(request), request, response, null))
  server.on('upgrade', (request, socket, first) => {
    const response = new ServerResponse(request)
    response.assignSocket(socket as Socket)
    response.shouldKeepAlive = false
    // An answer other than 101 ends the connection.
    response.once('finish', () => (socket as Socket).destroySoon())
    if (first.length > 0) socket.unshift(first)
    handle(sessionOf(request), request, response, socket as Socket)
  })
  server.on('connect', (_, socket) => {
    socket.end(rawAnswer(new Refusal(403, 'CONNECT is not taken here: connect to the host itself.')))
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
    const refusal = tooLarge
      ? new Refusal(431, `The request was refused: its headers are larger than ${maxHeaderBytes} bytes.`)
      : badRequest('it is not well-formed HTTP/1.1')
    // In the middle of an answer there is no place for another.
    const isFree = sessions.get(socket)?.underWay === 0
    if (isFree && socket.writable && error.code !== 'ECONNRESET') socket.end(rawAnswer(refusal))
    else socket.destroy()
  })

  const sessionOf = (request: IncomingMessage): Session => sessions.get(request.socket)!

  function wait(session: Session, socket: Socket): void {
    session.stopWaiting()
    session.stopWaiting = options.clock.after(options.headMs, () => socket.destroy())
  }

  async function handle(
    session: Session,
    request: IncomingMessage,
    response: ServerResponse,
    upgrade: Socket | null,
  ): Promise<void> {
    const { connection, secureName } = session
    session.stopWaiting()
    session.underWay += 1
    response.once('close', () => {
      session.underWay -= 1
      if (session.underWay === 0 && !upgrade) wait(session, request.socket)
    })
    if (session.underWay > (upgrade ? 1 : mostUnderWay)) return connection.cut()
    try {
      const target = requestTarget(request, secureName === null ? 'http' : 'https')
      if (secureName !== null && target.name !== secureName) {
        throw new Refusal(421, `The connection was made for ${secureName}; the request names another host.`)
      }
      const route = routeOf(connection, target)
      if (!route) return connection.cut()
      const leave = connection.use(target.name, route)
      if (upgrade) upgrade.once('close', leave)
      else response.once('close', leave)
      const { identity, policy } = connection.client
      const rule = target.name === null ? undefined : ruleFor(policy, target.name)
      const set = rule ? await fillHeaders(rule, identity.teamID, options.secrets) : {}
      if (response.destroyed || request.socket.destroyed) return
      const head = requestHead({
        rawHeaders: request.rawHeaders,
        host: target.host,
        set,
        upgrade: upgrade ? 'websocket' : null,
      })
      if (upgrade && head.hasBody) throw badRequest('an upgrade cannot carry a body')
      forward({ session, request, response, upgrade, target, route, head }, true)
    } catch (error) {
      answer(session, request, response, error)
    }
  }

  /** Null: a denied address that is asked for as such, which fails as it does on every other port. */
  function routeOf({ client, destination }: Connection, { name, host }: RequestTarget): Route | null {
    const route = decide(client.policy, name, destination.address, options.isClosed)
    if (route) return route
    if (host === '') throw noNameSent(destination.address)
    if (name === null) return null
    throw notAllowed(name)
  }

  type Exchange = {
    session: Session
    request: IncomingMessage
    response: ServerResponse
    upgrade: Socket | null
    target: RequestTarget
    route: Route
    head: RequestHead
  }

  function forward(exchange: Exchange, firstTime: boolean): void {
    const { session, request, response, upgrade, target, route, head } = exchange
    const upstream = httpRequest({
      agent: session.agent,
      host: route.to === 'address' ? route.address : route.name,
      port: session.connection.destination.port,
      path: target.path,
      method: request.method,
      headers: head.headers,
      maxHeaderSize: maxHeaderBytes,
      // Read by the agent below.
      route,
    } as ClientRequestArgs)
    const isOver = () => response.headersSent || response.destroyed || request.socket.destroyed
    upstream.on('error', (error) => {
      // The host closed an idle connection just as it was picked.
      const stale = firstTime && upstream.reusedSocket && !head.hasBody && isSafe(request.method)
      if (stale && !isOver()) forward(exchange, false)
      else answer(session, request, response, error)
    })
    upstream.on('response', (incoming) => relay(exchange, upstream, incoming))
    upstream.on('upgrade', (incoming, socket, first) => {
      if (!upgrade) return socket.destroy()
      response.detachSocket(upgrade)
      const pairs = [...responseHeaders(incoming.rawHeaders), 'Connection', 'Upgrade', 'Upgrade', 'websocket']
      let text = 'HTTP/1.1 101 Switching Protocols\r\n'
      for (let at = 0; at < pairs.length; at += 2) text += `${pairs[at]}: ${pairs[at + 1]}\r\n`
      upgrade.write(`${text}\r\n`, 'latin1')
      if (first.length > 0) socket.unshift(first)
      joinSockets(upgrade, socket as Socket)
    })
    response.once('close', () => {
      if (!response.writableFinished && !upgrade) upstream.destroy()
    })
    upgrade?.once('close', () => upstream.destroy())
    if (!head.hasBody) upstream.end()
    else {
      // Only once connected: what is taken before that would be lost.
      upstream.once('socket', () => flow(request, upstream))
      request.once('close', () => {
        if (!request.complete) upstream.destroy()
      })
    }
  }

  function relay(
    { session, request, response }: Exchange,
    upstream: ClientRequest,
    incoming: IncomingMessage,
  ) {
    // Cut off on the far side: a clean end would pass for a whole answer.
    incoming.once('error', () => resetSocket(request.socket))
    incoming.once('end', () => {
      if (upstream.writableFinished) return
      // Nobody wants the rest of the body.
      request.unpipe(upstream)
      upstream.destroy()
      request.resume()
    })
    response.sendDate = false
    try {
      response.writeHead(
        incoming.statusCode ?? 502,
        incoming.statusMessage,
        responseHeaders(incoming.rawHeaders),
      )
      flow(incoming, response)
    } catch (error) {
      incoming.removeAllListeners('error').on('error', () => {})
      incoming.destroy()
      response.statusMessage = ''
      answer(session, request, response, unreachable('The host', 'its answer is malformed', error))
    }
  }

  function answer(
    session: Session,
    request: IncomingMessage,
    response: ServerResponse,
    error: unknown,
  ): void {
    if (response.destroyed || request.socket.destroyed) return
    if (response.headersSent) return void resetSocket(request.socket)
    const refusal = error instanceof Refusal ? error : unreachable('The host', errorText(error), error)
    const { sandboxID } = session.connection.client.identity
    options.log.debug(
      { sandboxID, status: refusal.status, cause: refusal.cause },
      'a request was not passed on',
    )
    const body = `${refusal.message}\n`
    response.writeHead(refusal.status, {
      'Content-Type': 'text/plain; charset=utf-8',
      'Content-Length': Buffer.byteLength(body),
      Connection: 'close',
    })
    response.end(request.method === 'HEAD' ? undefined : body)
    request.unpipe()
    request.resume()
  }

  return {
    serve(connection, socket, secureName) {
      const agent = createUpstreams(connection, secureName, options)
      const session: Session = { connection, secureName, agent, underWay: 0, stopWaiting: () => {} }
      sessions.set(socket, session)
      wait(session, socket)
      connection.onPolicyChange = () => dropIdle(agent)
      socket.once('close', () => {
        session.stopWaiting()
        agent.destroy()
      })
      server.emit('connection', socket)
      socket.resume()
    },
  }
}

/** Streams a body. The head goes out with the first piece, or by itself if that takes long. */
function flow(source: IncomingMessage, sink: ClientRequest | ServerResponse): void {
  let begun = false
  source.on('data', (chunk: Buffer) => {
    begun = true
    noteSpent(chunk.length)
  })
  source.pipe(sink)
  setImmediate(() => {
    if (!begun && !sink.writableEnded && !sink.destroyed) sink.flushHeaders()
  })
}

/** Safe to send twice. */
const isSafe = (method: string | undefined) => method === 'GET' || method === 'HEAD' || method === 'OPTIONS'

const reasons: Record<number, string> = { 400: 'Bad Request', 403: 'Forbidden', 431: 'Headers Too Large' }

function rawAnswer({ status, message }: Refusal): string {
  const body = `${message}\n`
  return (
    `HTTP/1.1 ${status} ${reasons[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  )
}
