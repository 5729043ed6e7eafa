/**
 * The proxy in front of sandboxes, on the API's own port. It determines the sandbox of a request, admits or
 * rejects it with the contract's texts, and relays bytes. Addresses come only from the route table; it knows
 * no team, key or driver.
 */
import { type IncomingMessage, type ServerOptions, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { envdPort } from '../contract/constants.ts'
import type { FindDemand, FindResumable } from '../core/sandbox/network/resumable-route.ts'
import type { Route, RouteTable } from '../core/sandbox/network/routes.ts'
import { systemClock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import { onBehalfOf, requestIDOf } from '../lib/request-id.ts'
import { setRequestOwner } from '../lib/request-owner.ts'
import type { RequestSource } from '../lib/request-source.ts'
import { RequestTurns } from '../lib/request-turns.ts'
import { leadsToInternalRoute, neverReachesSandbox, rejectionOf } from './access.ts'
import {
  type EdgeAnswer,
  internalRoute,
  invalidRequest,
  noSandboxOfToken,
  sandboxDeparts,
  sandboxIsFrozen,
  sandboxNotFound,
  sendAnswer,
  sendPreflight,
  tokenOfOtherNode,
  tooManyConnections,
  tooManySignatures,
  unknownSignature,
} from './answers.ts'
import type { Cut } from './clients.ts'
import { forward } from './forward.ts'
import { type Destination, destinationOf, domainName, type SandboxDestination } from './host.ts'
import { type EdgeForwarder, type FindSigned, PeerTraffic } from './peer-traffic.ts'
import { type EdgeExchange, type OnFinished, RequestWatch } from './request-watch.ts'
import { Run } from './run.ts'
import { SignedFileSearch } from './signed-file.ts'
import { Waker } from './wake.ts'

export type EdgeOptions = {
  routes: RouteTable
  /** Finds a paused sandbox that traffic may wake; without this, nothing wakes. */
  findResumable?: FindResumable
  /** Forwards traffic for sandboxes of other nodes; undefined without a cluster. */
  forwarder?: EdgeForwarder | undefined
  /** Tells who may use the sandbox of a node that is away; without this, nobody learns anything about it. */
  findDemand?: FindDemand | undefined
  findSigned?: FindSigned | undefined
  /** Null, or `localhost`: every host that names no sandbox is shared with the API. */
  domain: string | null
  log: Log
  /**
   * Limit for open and waiting requests and tunnels per sandbox; the agent's port has a separate limit of the
   * same size.
   */
  connectionLimit?: number
  /** Waits between attempts to reach a port that refuses. */
  retryWaitsMs?: readonly number[]
  /** How old a request may become before a move of its sandbox to another node cuts it. */
  finishWithinMs?: number
  /** Called with each request or tunnel to a sandbox when it is over. */
  onFinished?: OnFinished
}

type Edge = {
  /** For the server of both edge and API: bodies and streams may last for hours, heads may not. */
  readonly serverOptions: ServerOptions
  /** Handles the source's events for sandbox traffic and passes all others to `api`. */
  attach(source: RequestSource, api: (request: IncomingMessage, response: ServerResponse) => void): void
  claims(request: IncomingMessage): boolean
  handle(request: IncomingMessage, response: ServerResponse, awaitsContinue?: boolean): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Resets every connection through the edge. */
  close(): void
}

export function createEdge(options: EdgeOptions): Edge {
  const edge = new SandboxEdge(options)
  const claims = (request: IncomingMessage) => edge.destination(request).kind !== 'api'
  return {
    serverOptions: {
      requestTimeout: 0,
      headersTimeout: 30_000,
      // How often connections are checked for late heads.
      connectionsCheckingInterval: 5_000,
      // Longer than clients keep an idle connection (300 s), so that they close it and never race us.
      keepAliveTimeout: 310_000,
      maxHeaderSize: 64 * 1024,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      // An offer of HTTP/2 may be ignored: the request is then an ordinary one.
      shouldUpgradeCallback: (request) => claims(request) && !/^h2c?$/i.test(request.headers.upgrade ?? ''),
    },
    attach(source, api) {
      const turns = new RequestTurns()
      source.on('request', (request, response) => {
        turns.enter(request, response, () => {
          if (claims(request)) edge.handle(request, response, false)
          else api(request, response)
        })
      })
      source.on('checkContinue', (request, response) => {
        turns.enter(request, response, () => {
          if (claims(request)) return edge.handle(request, response, true)
          response.writeContinue()
          api(request, response)
        })
      })
      source.on('upgrade', (request, socket, head) => {
        // Its answer would overtake those of earlier requests.
        if (turns.isBusy(request)) socket.destroy()
        else edge.upgrade(request, socket as Socket, head)
      })
    },
    claims,
    handle: (request, response, awaitsContinue = false) => edge.handle(request, response, awaitsContinue),
    upgrade: (request, socket, head) => edge.upgrade(request, socket as Socket, head),
    close: () => edge.close(),
  }
}

const defaultRetryWaitsMs = [100, 200, 400, 400, 400]
/** Longer than a short command takes on a busy machine. New requests wait meanwhile. */
const defaultFinishWithinMs = 5000

type Target = SandboxDestination & { route: Route }

/** For requests on a shared host whose sandbox was found by a secret of its agent. */
const toAgent = (route: Route, path: string): Target => ({
  kind: 'sandbox',
  sandboxID: route.sandboxID,
  port: envdPort,
  path,
  ownHost: null,
  route,
})

class SandboxEdge {
  #routes: RouteTable
  #files: SignedFileSearch
  #waker: Waker | null
  #peers: PeerTraffic | null
  #domain: string | null
  #log: Log
  #onFinished: OnFinished | undefined
  #limits: { connectionLimit: number; retryWaitsMs: readonly number[] }
  #finishWithinMs: number
  #runs = new Map<string, Run>()
  /** Runs without a route, whose last requests may finish. */
  #departing = new Set<Run>()
  // A request is claimed and handled in one go, so the last result is the one needed again.
  #asked: { request: IncomingMessage; destination: Destination } | null = null
  #stopWatching: () => void

  constructor({
    routes,
    findResumable,
    forwarder,
    findDemand,
    findSigned,
    domain,
    log,
    connectionLimit = 1000,
    retryWaitsMs = defaultRetryWaitsMs,
    finishWithinMs = defaultFinishWithinMs,
    onFinished,
  }: EdgeOptions) {
    this.#routes = routes
    this.#files = new SignedFileSearch(routes, systemClock)
    this.#waker = findResumable ? new Waker(findResumable, connectionLimit, log) : null
    this.#peers = forwarder ? new PeerTraffic({ forwarder, findDemand, findSigned, log }) : null
    this.#domain = domainName(domain)
    this.#log = log
    this.#onFinished = onFinished
    this.#limits = { connectionLimit, retryWaitsMs }
    this.#finishWithinMs = finishWithinMs
    this.#stopWatching = routes.onRemove((route, departs) => this.#endRun(route, departs))
  }

  destination(request: IncomingMessage): Destination {
    if (this.#asked?.request === request) return this.#asked.destination
    const destination = destinationOf(request, this.#domain)
    this.#asked = { request, destination }
    return destination
  }

  handle(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): void {
    this.#answerOrCarry(this.#watched({ request, response, awaitsContinue, upgrade: null }))
  }

  upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => {})
    if (head.length > 0) socket.unshift(head)
    // Until the sandbox agrees to the upgrade this is still HTTP, and so are rejections.
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    socket.on('drain', () => response.emit('drain'))
    response.once('finish', () => socket.destroySoon())
    this.#answerOrCarry(this.#watched({ request, response, awaitsContinue: false, upgrade: socket }))
  }

  close(): void {
    this.#stopWatching()
    this.#waker?.close()
    // The sandboxes keep running, so no answer about their end would be true.
    for (const run of [...this.#runs.values(), ...this.#departing]) run.end(() => null)
    this.#runs.clear()
  }

  #watched(exchange: HttpExchange): EdgeExchange {
    const destination = this.destination(exchange.request)
    const watch = this.#onFinished ? new RequestWatch(exchange, destination, this.#onFinished) : null
    return { ...exchange, watch }
  }

  #answerOrCarry(exchange: EdgeExchange): void {
    const { request, response } = exchange
    const destination = this.destination(request)
    const target = destination.kind === 'preflight' ? null : this.#target(request, destination)
    if (!target) sendPreflight(request, response)
    else if (!('status' in target)) this.#carry(exchange, target)
    else if (destination.kind === 'sandbox' && this.#mayBeElsewhere(request, destination))
      void this.#findAndCarry(exchange, destination)
    else if (destination.kind === 'signed-file' && this.#mayBeOfPeer(destination.path, target))
      void this.#peers?.answerSigned(exchange, destination.path)
    else sendAnswer(request, response, target)
  }

  #mayBeOfPeer(path: string, answer: EdgeAnswer): boolean {
    return answer === unknownSignature && this.#peers?.mayHaveFile(path) === true
  }

  /** True if the sandbox may be paused or on another node. */
  #mayBeElsewhere(request: IncomingMessage, destination: SandboxDestination): boolean {
    if (!(this.#waker || this.#peers) || this.#routes.get(destination.sandboxID)) return false
    return !neverReachesSandbox(request, destination)
  }

  async #findAndCarry(exchange: EdgeExchange, destination: SandboxDestination): Promise<void> {
    const { request, response } = exchange
    // Its team is not known here.
    setRequestOwner(request, { team: destination.sandboxID, sandboxID: destination.sandboxID })
    const forwarded = await this.#peers?.forward(exchange, destination)
    if (forwarded === true || request.socket.destroyed) return
    // Log lines of the resume carry the ID of this request.
    const wake = () => this.#waker?.wake(exchange, destination)
    const rejection = forwarded || (await onBehalfOf(requestIDOf(request), wake))
    if (request.socket.destroyed) return
    const target = rejection ?? this.#target(request, destination)
    if ('status' in target) sendAnswer(request, response, target)
    else this.#carry(exchange, target)
  }

  #carry(exchange: EdgeExchange, destination: Target): void {
    const { request, response, upgrade } = exchange
    const { sandboxID, teamID } = destination.route
    setRequestOwner(request, { team: teamID, sandboxID })
    const run = this.#runOf(destination.route)
    let cut: Cut = () => {}
    const leave = run.clients.enter(destination.port, (answer) => cut(answer))
    if (!leave) {
      sendAnswer(request, response, tooManyConnections(sandboxID, run.clients.limit))
      return
    }
    const connection = upgrade ?? response
    connection.once('close', leave)
    cut = forward({ ...exchange, run, destination, log: this.#log })
  }

  /** Returns the target of an admitted request, or the answer to a rejected one. */
  #target(
    request: IncomingMessage,
    destination: Exclude<Destination, { kind: 'preflight' }>,
  ): Target | EdgeAnswer {
    switch (destination.kind) {
      case 'sandbox': {
        // Checked first, so that the answer does not reveal whether the sandbox exists.
        if (leadsToInternalRoute(destination)) return internalRoute(destination.path)
        const route = this.#routes.get(destination.sandboxID)
        if (!route) return sandboxNotFound(destination.sandboxID)
        return (
          rejectionOf(request, destination, route) ?? this.#frozenAnswer(route) ?? { ...destination, route }
        )
      }
      case 'signed-file': {
        const { path } = destination
        const route = this.#files.find(request.method, path)
        if (!route) return unknownSignature
        if (route === 'busy') return tooManySignatures
        const frozen = this.#frozenAnswer(route)
        if (frozen) return frozen
        return toAgent(route, path)
      }
      case 'token': {
        const { token, path } = destination
        if (leadsToInternalRoute({ port: envdPort, path })) return internalRoute(path)
        const route = this.#routes.ofToken(token)
        if (!route) return this.#peers ? tokenOfOtherNode : noSandboxOfToken
        return this.#frozenAnswer(route) ?? toAgent(route, path)
      }
      case 'rejected':
        return invalidRequest(destination.reason)
      case 'api':
        return invalidRequest('Invalid host')
    }
  }

  #frozenAnswer(route: Route): EdgeAnswer | undefined {
    const why = this.#routes.whyFrozen(route)
    return why === undefined ? undefined : sandboxIsFrozen(route.sandboxID, why)
  }

  #runOf(route: Route): Run {
    const known = this.#runs.get(route.sandboxID)
    if (known && known.route.runID === route.runID) {
      known.route = route
      return known
    }
    known?.end(() => sandboxNotFound(route.sandboxID))
    const run = new Run(route, this.#limits)
    this.#runs.set(route.sandboxID, run)
    return run
  }

  #endRun({ sandboxID, runID }: Route, departs: boolean): void | Promise<void> {
    const run = this.#runs.get(sandboxID)
    if (run?.route.runID !== runID) return
    this.#runs.delete(sandboxID)
    if (departs) return this.#depart(run)
    run.end(() => sandboxNotFound(sandboxID))
  }

  async #depart(run: Run): Promise<void> {
    this.#departing.add(run)
    await run.letFinish(this.#finishWithinMs)
    this.#departing.delete(run)
    run.end((port) => sandboxDeparts(run.route.sandboxID, port))
  }
}
