/**
 * The gate for what leaves sandboxes. The driver hands it their TCP connections and DNS questions; it tells whom
 * they are for from the bytes, holds that against the policy of the sandbox, and makes the outgoing connection
 * itself. It knows sandboxes by their address alone, and nothing of firewalls.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext, TLSSocket } from 'node:tls'
import type { EgressGate, EgressPolicy, GatePorts, SecretReader } from '../core/egress.ts'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { joinSockets, resetSocket } from '../lib/join-sockets.ts'
import type { Log } from '../lib/log.ts'
import type { Authority } from './authority.ts'
import { Clients, type Connection, plainAddress } from './clients.ts'
import { type Destination, decide, type IsClosed, isAddressAllowed, type Route, ruleFor } from './decide.ts'
import { createDial } from './dial.ts'
import { DnsFront } from './dns-front.ts'
import { createHttpFront } from './http-front.ts'
import { defaultLimits, type GateLimits } from './limits.ts'
import { isAscii, readHostName } from './names.ts'
import { createResolve, type Resolve } from './resolve.ts'
import { readOpening } from './sniff.ts'

export type GateOptions = {
  /** Where it listens. */
  host: string
  /** Any free ones unless given. */
  ports?: GatePorts
  resolve?: Resolve
  /** Who is asked for names unless a policy says: `address` or `address:port`. */
  dnsServers: readonly string[]
  /** Where a connection that was handed over wanted to go; null when that cannot be told. */
  originalDestination(socket: Socket): Destination | null | Promise<Destination | null>
  /** What no policy opens. */
  isClosed: IsClosed
  authority: Authority
  secrets: SecretReader
  log: Log
  clock: Clock
  /** Roots for hosts whose requests get headers, in PEM form; the system's unless given. */
  trust?: readonly string[]
  limits?: Partial<GateLimits>
}

export type Gate = EgressGate & { ports: GatePorts }

const webPorts: readonly number[] = [80, 443]
const alerts = { accessDenied: 49, internalError: 80, unrecognizedName: 112 }

export async function createGate(options: GateOptions): Promise<Gate> {
  const { isClosed, clock, log } = options
  const limits = { ...defaultLimits, ...options.limits }
  const clients = new Clients(limits, isClosed)
  const resolve = options.resolve ?? createResolve(clock)
  const dial = createDial({ ...limits, resolve, dnsServers: options.dnsServers, isClosed, clock })
  let trusted: SecureContext | undefined
  const trust = () => {
    trusted ??= createSecureContext({ ca: [...(options.trust ?? getCACertificates('system'))] })
    return trusted
  }
  const http = createHttpFront({ ...limits, ...options, dial, trust })
  const dns = new DnsFront({ ...options, clients, limits })

  async function accept(socket: Socket): Promise<void> {
    socket.on('error', () => {})
    const client = clients.get(plainAddress(socket.remoteAddress))
    const connection = client && clients.enter(client, socket)
    if (!connection) return resetSocket(socket)
    try {
      const destination = await options.originalDestination(socket)
      if (!destination) throw new Error('its destination is not known')
      connection.destination = destination
      await lead(connection, socket)
    } catch (error) {
      log.debug(
        { sandboxID: client.identity.sandboxID, error: errorText(error) },
        'a connection was not led on',
      )
      resetSocket(socket)
    }
  }

  async function lead(connection: Connection, socket: Socket): Promise<void> {
    const { client, destination } = connection
    const isAllowed = (policy: EgressPolicy) => isAddressAllowed(policy, destination.address, isClosed)
    const waitMs = openingWait(client.policy, destination.port, isAllowed(client.policy), limits)
    const opening = waitMs === 0 ? ({ kind: 'other' } as const) : await readOpening(socket, clock, waitMs)
    if (opening === null) return void socket.destroy()
    if (opening.kind === 'http') return http.serve(connection, socket, null)
    // What is hardly HTTP is told so where HTTP is expected.
    if (opening.kind === 'other' && destination.port === 80 && !isAllowed(client.policy)) {
      return http.serve(connection, socket, null)
    }
    if (opening.kind !== 'tls') return await pass(connection, socket, null)
    const { serverName, hidesName } = opening.hello
    // Unlike Host headers, TLS has one spelling for names that are not English.
    const host = serverName !== null && isAscii(serverName) ? readHostName(serverName) : null
    if (serverName !== null && host === null) return refuseTls(socket, alerts.unrecognizedName)
    const name = host && 'name' in host ? host.name : null
    const rule = name !== null && ruleFor(client.policy, name)
    if (rule) return await intercept(connection, socket, name)
    const route = decide(client.policy, name, destination.address, isClosed)
    // The name that is shown decides nothing where another may be hidden.
    if (!route || (route.to === 'name' && hidesName && !limits.allowHiddenNames)) {
      return refuseTls(socket, name === null ? alerts.unrecognizedName : alerts.accessDenied)
    }
    await pass(connection, socket, name)
  }

  /** Bytes both ways, unread. */
  async function pass(connection: Connection, socket: Socket, name: string | null): Promise<void> {
    const { client, destination } = connection
    const route: Route | null = decide(client.policy, name, destination.address, isClosed)
    if (!route) throw new Error('it is not allowed')
    connection.use(name, route)
    const upstream = await dial(client.policy, route, destination.port, connection.track)
    if (socket.destroyed) return void upstream.destroy()
    joinSockets(socket, upstream)
  }

  /** Stands in for the host, so that requests can be read. */
  async function intercept(connection: Connection, socket: Socket, name: string): Promise<void> {
    const secureContext = await options.authority.contextFor(name)
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

  const proxyServer = createServer(
    { allowHalfOpen: true, pauseOnConnect: true },
    (socket) => void accept(socket),
  )
  const dnsServer = createServer({ allowHalfOpen: true }, (socket) => dns.onConnection(socket))
  const udp = createSocket('udp4')
  udp.on('message', (message, from) => void dns.onMessage(udp, message, from))
  const ports = {
    proxy: await listen(proxyServer, options.host, options.ports?.proxy ?? 0),
    dns: await listen(dnsServer, options.host, options.ports?.dns ?? 0),
  }
  await bind(udp, options.host, ports.dns)
  udp.on('error', (error) => log.warn({ error: errorText(error) }, 'the DNS socket of the gate failed'))

  return {
    ports,
    admit: (address, client) => clients.admit(address, client),
    forget: (address) => clients.forget(address),
    async close() {
      const closed = [proxyServer, dnsServer].map((server) => once(server, 'close'))
      proxyServer.close()
      dnsServer.close()
      udp.close()
      clients.closeAll()
      await Promise.all(closed)
    },
  }
}

/** How long to wait for a connection's first bytes; 0 where they change nothing. */
function openingWait(
  policy: EgressPolicy,
  port: number,
  addressAllowed: boolean,
  limits: GateLimits,
): number {
  const isWeb = webPorts.includes(port)
  const asksName = policy.headerRules.length > 0 || (policy.proxy !== null && isWeb)
  if (addressAllowed && !asksName) return 0
  // Elsewhere the server may be the one to speak first.
  return addressAllowed && !isWeb ? limits.serverFirstMs : limits.openingMs
}

/** A word that TLS clients show, instead of a broken connection. */
function refuseTls(socket: Socket, alert: number): void {
  socket.end(Buffer.from([21, 3, 3, 0, 2, 2, alert]))
  socket.destroySoon()
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  server.listen(port, host)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function bind(udp: UdpSocket, host: string, port: number): Promise<void> {
  udp.bind(port, host)
  await once(udp, 'listening')
}
