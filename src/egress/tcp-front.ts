/**
 * Handles TCP connections that the driver redirects: determines the destination from the first bytes, and
 * connects to it.
 */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import type { EgressPolicy } from '../core/ports/egress.ts'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { isAscii, readHostName } from '../lib/host-name.ts'
import { joinSockets, resetSocket } from '../lib/join-sockets.ts'
import type { Log } from '../lib/log.ts'
import { type AdmittedSandboxes, type GateConnection, plainAddress } from './admitted-sandboxes.ts'
import type { ClientHello } from './client-hello.ts'
import {
  decide,
  type IsClosed,
  isAddressAllowed,
  type OnDecision,
  type OriginalDestination,
  ruleFor,
} from './decide.ts'
import type { Dialer } from './dial.ts'
import type { EgressAuthority } from './egress-authority.ts'
import type { HttpFront } from './http-front.ts'
import type { GateLimits } from './limits.ts'
import { type Opening, readOpening } from './sniff.ts'

type TcpFrontOptions = {
  sandboxes: AdmittedSandboxes
  dialer: Dialer
  http: HttpFront
  authority: EgressAuthority
  /** Returns the original destination of a redirected connection; null if it is unknown. */
  originalDestination(socket: Socket): OriginalDestination | null | Promise<OriginalDestination | null>
  isClosed: IsClosed
  limits: GateLimits
  clock: Clock
  log: Log
  onDecision?: OnDecision
}

const webPorts: readonly number[] = [80, 443]
const alerts = { accessDenied: 49, unrecognizedName: 112 }

export class TcpFront {
  readonly #options: TcpFrontOptions

  constructor(options: TcpFrontOptions) {
    this.#options = options
  }

  async onConnection(socket: Socket): Promise<void> {
    const { sandboxes, originalDestination, log } = this.#options
    socket.on('error', () => {})
    const sandbox = sandboxes.get(plainAddress(socket.remoteAddress))
    const connection = sandbox && sandboxes.enter(sandbox, socket)
    if (!connection) return resetSocket(socket)
    try {
      const destination = await originalDestination(socket)
      if (!destination) throw new Error('its destination is unknown')
      connection.destination = destination
      await this.#lead(connection, socket)
    } catch (error) {
      const { sandboxID } = sandbox.identity
      log.debug({ sandboxID, error: errorText(error) }, 'The gate rejected a connection.')
      resetSocket(socket)
    }
  }

  async #lead(connection: GateConnection, socket: Socket): Promise<void> {
    const { policy } = connection.sandbox
    const { port, address } = connection.destination
    const isAllowed = () => isAddressAllowed(connection.sandbox.policy, address, this.#options.isClosed)
    const opening = await this.#opening(socket, openingWait(policy, port, isAllowed(), this.#options.limits))
    if (opening === null) return void socket.destroy()
    // Bytes that are hardly HTTP get an HTTP error on a port where HTTP is expected.
    const isHttp = opening.kind === 'http' || (opening.kind === 'other' && port === 80 && !isAllowed())
    if (isHttp) this.#options.http.serve(connection, socket, null)
    else if (opening.kind === 'tls') await this.#leadTls(connection, socket, opening.hello)
    else await this.#pass(connection, socket, null)
  }

  async #opening(socket: Socket, waitMs: number): Promise<Opening | null> {
    return waitMs === 0 ? { kind: 'other' } : await readOpening(socket, this.#options.clock, waitMs)
  }

  async #leadTls(
    connection: GateConnection,
    socket: Socket,
    { serverName, hidesName }: ClientHello,
  ): Promise<void> {
    const { isClosed, limits } = this.#options
    const { sandbox, destination } = connection
    const { policy } = sandbox
    // Unlike Host headers, TLS has only one spelling for names that are not ASCII.
    const host = serverName !== null && isAscii(serverName) ? readHostName(serverName) : null
    if (serverName !== null && host === null) return rejectTls(socket, alerts.unrecognizedName)
    const name = host && 'name' in host ? host.name : null
    if (name !== null && ruleFor(policy, name, destination.port)) {
      return await this.#intercept(connection, socket, name)
    }
    const route = decide(policy, name, destination, isClosed)
    // The visible name decides nothing if another name may be hidden.
    if (!route || (route.to === 'name' && hidesName && !limits.allowHiddenNames)) {
      this.#options.onDecision?.('tls', false)
      return rejectTls(socket, name === null ? alerts.unrecognizedName : alerts.accessDenied)
    }
    await this.#pass(connection, socket, name)
  }

  /** Relays bytes both ways, unread. */
  async #pass(connection: GateConnection, socket: Socket, name: string | null): Promise<void> {
    const { sandbox, destination } = connection
    const route = decide(sandbox.policy, name, destination, this.#options.isClosed)
    this.#options.onDecision?.(name === null ? 'tcp' : 'tls', route !== null)
    if (!route) throw new Error('it is not allowed')
    connection.use(name, route)
    const { dialer } = this.#options
    const upstream = await dialer.dial(sandbox.policy, route, destination.port, connection.track)
    if (socket.destroyed) return void upstream.destroy()
    joinSockets(socket, upstream)
  }

  /** Impersonates the host, so that requests can be read. */
  async #intercept(connection: GateConnection, socket: Socket, name: string): Promise<void> {
    const { authority, clock, limits, http } = this.#options
    const secureContext = await authority.contextFor(name)
    if (socket.destroyed) return
    const secured = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] })
    connection.track(secured)
    const cancel = clock.after(limits.openingMs, () => connection.cut())
    secured.once('close', () => {
      cancel()
      socket.destroy()
    })
    secured.once('secure', () => {
      cancel()
      http.serve(connection, secured, name)
    })
  }
}

/** How long to wait for a connection's first bytes; 0 if they change nothing. */
function openingWait(
  policy: EgressPolicy,
  port: number,
  addressAllowed: boolean,
  limits: GateLimits,
): number {
  const isWeb = webPorts.includes(port) || policy.headerRules.some((rule) => rule.port === port)
  const asksName = policy.headerRules.length > 0 || (policy.proxy !== null && isWeb)
  if (addressAllowed && !asksName) return 0
  // On other ports the server may be the one to speak first.
  return addressAllowed && !isWeb ? limits.serverFirstMs : limits.openingMs
}

/** Sends an alert that TLS clients show, instead of breaking the connection. */
function rejectTls(socket: Socket, alert: number): void {
  socket.end(Buffer.from([21, 3, 3, 0, 2, 2, alert]))
  socket.destroySoon()
}
