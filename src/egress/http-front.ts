/**
 * Handles unencrypted requests, and requests from TLS connections that the gate terminated: each one is
 * judged by the host it names, gets the headers of its rule, and is sent on in a head that the gate writes.
 */
import {
  type Agent,
  type ClientRequestArgs,
  createServer,
  type IncomingMessage,
  ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import type { SecretReader } from '../core/ports/egress.ts'
import { answerHeaders } from '../lib/http-relay/headers.ts'
import { type HttpExchange, HttpRelay } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import { answerHalfOpenClients } from '../lib/node-internals/half-open-http.ts'
import { RequestTurns } from '../lib/request-turns.ts'
import type { GateConnection } from './admitted-sandboxes.ts'
import { decide, type EgressRoute, type IsClosed, type OnDecision, ruleFor } from './decide.ts'
import { headForHost } from './headers.ts'
import { answerRejection, answerUnreadable } from './http-answers.ts'
import { fillHeaders } from './placeholders.ts'
import { badRequest, noNameSent, notAllowed, Rejection, reflectsHeaders } from './rejection.ts'
import { type RequestTarget, requestTarget } from './request-target.ts'
import { createUpstreams, dropIdle, type UpstreamOptions } from './upstreams.ts'

type HttpFrontOptions = UpstreamOptions & {
  isClosed: IsClosed
  secrets: SecretReader
  log: Log
  /** From the start of a connection, or the end of an answer, to the end of the next request's head. */
  headMs: number
  onDecision?: OnDecision
}

const maxHeaderBytes = 64 * 1024
/** The answer to these methods repeats the request, including the rule's headers. */
const reflectingMethods = new Set(['TRACE', 'TRACK'])

/** One connection of a sandbox that speaks HTTP. */
class HttpSession {
  readonly connection: GateConnection
  /** The host that the gate impersonates; null for an unencrypted connection. */
  readonly secureName: string | null
  readonly agent: Agent
  readonly #socket: Socket
  readonly #options: HttpFrontOptions
  #underWay = 0
  #stopWaiting = () => {}

  constructor(
    connection: GateConnection,
    socket: Socket,
    secureName: string | null,
    options: HttpFrontOptions,
  ) {
    this.connection = connection
    this.secureName = secureName
    this.agent = createUpstreams(connection, secureName, options)
    this.#socket = socket
    this.#options = options
    this.#waitForHead()
    connection.onPolicyChange = () => dropIdle(this.agent)
    socket.once('close', () => {
      this.#stopWaiting()
      this.agent.destroy()
    })
  }

  get isIdle(): boolean {
    return this.#underWay === 0
  }

  enter({ response, upgrade }: HttpExchange): void {
    this.#stopWaiting()
    this.#underWay += 1
    response.once('close', () => {
      this.#underWay -= 1
      if (this.isIdle && !upgrade) this.#waitForHead()
    })
  }

  #waitForHead(): void {
    this.#stopWaiting()
    this.#stopWaiting = this.#options.clock.after(this.#options.headMs, () => this.#socket.destroy())
  }
}

export class HttpFront {
  readonly #options: HttpFrontOptions
  readonly #sessions = new WeakMap<object, HttpSession>()
  readonly #turns = new RequestTurns()
  readonly #server = createServer({
    maxHeaderSize: maxHeaderBytes,
    requireHostHeader: false,
    // Other upgrades are offers that may be ignored.
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
  })

  constructor(options: HttpFrontOptions) {
    this.#options = options
    const server = this.#server
    // The session has its own deadline.
    server.keepAliveTimeout = 0
    answerHalfOpenClients(server)
    server.on('request', (request, response) => {
      this.#turns.enter(request, response, () => void this.#handle(exchangeOf(request, response, null)))
    })
    server.on('upgrade', (request, socket, first) => this.#upgrade(request, socket as Socket, first))
    server.on('connect', (_, socket) => {
      answerUnreadable(socket, new Rejection(403, 'CONNECT is not supported: connect to the host itself.'))
    })
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      // Another answer cannot be sent in the middle of an answer.
      const isFree = this.#sessions.get(socket)?.isIdle
      if (isFree && socket.writable && error.code !== 'ECONNRESET')
        answerUnreadable(socket, rejectionOf(error))
      else socket.destroy()
    })
  }

  /** `secureName`: the host that the gate impersonates; requests for other hosts are rejected. */
  serve(connection: GateConnection, socket: Socket, secureName: string | null): void {
    this.#sessions.set(socket, new HttpSession(connection, socket, secureName, this.#options))
    this.#server.emit('connection', socket)
    socket.resume()
  }

  #upgrade(request: IncomingMessage, socket: Socket, first: Buffer): void {
    // Its answer would overtake those of earlier requests.
    if (this.#turns.isBusy(request)) return void socket.destroy()
    const response = new ServerResponse(request)
    response.assignSocket(socket)
    response.shouldKeepAlive = false
    // An answer other than 101 ends the connection.
    response.once('finish', () => socket.destroySoon())
    if (first.length > 0) socket.unshift(first)
    void this.#handle(exchangeOf(request, response, socket))
  }

  async #handle(exchange: HttpExchange): Promise<void> {
    const { request, response, upgrade } = exchange
    const session = this.#sessions.get(request.socket)!
    const { connection, secureName } = session
    session.enter(exchange)
    try {
      const target = targetOf(request, secureName)
      const route = this.#routeOf(connection, target)
      if (!route) return connection.cut()
      const leave = connection.use(target.name, route)
      if (upgrade) upgrade.once('close', leave)
      else response.once('close', leave)
      const set = await this.#headersOf(session, target, request.method)
      if (response.destroyed || request.socket.destroyed) return
      this.#relay(exchange, session, target, route, set)
    } catch (error) {
      this.#reject(exchange, session, error)
    }
  }

  /** Null for a denied address that the request names as such: it fails like on every other port. */
  #routeOf({ sandbox, destination }: GateConnection, { name, host }: RequestTarget): EgressRoute | null {
    const route = decide(sandbox.policy, name, destination, this.#options.isClosed)
    this.#options.onDecision?.('http', route !== null)
    if (route) return route
    if (host === '') throw noNameSent(destination.address)
    if (name === null) return null
    throw notAllowed(name)
  }

  /**
   * The headers that the policy sets on requests to the name; none on an unencrypted connection, unless the
   * rule allows it.
   */
  async #headersOf(
    { connection: { sandbox, destination }, secureName }: HttpSession,
    { name }: RequestTarget,
    method: string | undefined,
  ): Promise<Record<string, string>> {
    const rule = name === null ? undefined : ruleFor(sandbox.policy, name, destination.port)
    if (!rule || (secureName === null && !rule.onPlainHttp)) return {}
    if (reflectingMethods.has(method ?? '')) throw reflectsHeaders(method!)
    return await fillHeaders(rule, sandbox.identity.teamID, this.#options.secrets)
  }

  #relay(
    exchange: HttpExchange,
    session: HttpSession,
    { path, host }: RequestTarget,
    route: EgressRoute,
    set: Record<string, string>,
  ): void {
    const { request, response, upgrade } = exchange
    const { connection, agent } = session
    // The gate must not add a Date of its own to the host's answer.
    response.sendDate = false
    const head = headForHost(request, { host, set, upgrade: upgrade !== null })
    const { port } = connection.destination
    const relay = new HttpRelay({
      ...exchange,
      head,
      // The agent reads the route from this option.
      target: {
        agent,
        host: route.to === 'address' ? route.address : route.name,
        port,
        path,
        route,
      } as ClientRequestArgs,
      answerHeaders: (raw) => answerHeaders(raw, { trailers: false }),
      ownTrailers: null,
      pacer: connection.sandbox.pacer,
      fail: (error) => this.#reject(exchange, session, error),
    })
    upgrade?.once('close', () => relay.leave())
  }

  #reject(exchange: HttpExchange, { connection }: HttpSession, error: unknown): void {
    const rejection = answerRejection(exchange, error)
    if (!rejection) return
    const { sandboxID } = connection.sandbox.identity
    const { status, cause } = rejection
    this.#options.log.debug({ sandboxID, status, cause }, 'The gate rejected a request.')
  }
}

/** Node itself answers a client of the gate that waits for a 100. */
function exchangeOf(
  request: IncomingMessage,
  response: ServerResponse,
  upgrade: Socket | null,
): HttpExchange {
  return { request, response, upgrade, awaitsContinue: false }
}

function targetOf(request: IncomingMessage, secureName: string | null): RequestTarget {
  const target = requestTarget(request, secureName === null ? 'http' : 'https')
  if (secureName === null || target.name === secureName) return target
  throw new Rejection(421, `The connection was made for ${secureName}; the request names another host.`)
}

function rejectionOf(error: NodeJS.ErrnoException): Rejection {
  if (error.code !== 'HPE_HEADER_OVERFLOW') return badRequest('it is not well-formed HTTP/1.1')
  return new Rejection(
    431,
    `The gate rejects the request: its headers are larger than ${maxHeaderBytes} bytes.`,
  )
}
