/**
 * The gate for sandboxes' egress. The driver redirects their TCP connections and DNS questions to it; it
 * determines the destination from the bytes, checks it against the sandbox's policy, and makes the outgoing
 * connection itself. It knows sandboxes by their address only, and nothing of firewalls.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import type { EgressGate, GatePorts, SecretReader } from '../core/ports/egress.ts'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { AdmittedSandboxes } from './admitted-sandboxes.ts'
import type { IsClosed, OnDecision, OriginalDestination } from './decide.ts'
import { Dialer } from './dial.ts'
import { DnsFront } from './dns-front.ts'
import type { EgressAuthority } from './egress-authority.ts'
import { HttpFront } from './http-front.ts'
import { defaultLimits, type GateLimits } from './limits.ts'
import { createResolve, type Resolve } from './resolve.ts'
import { TcpFront } from './tcp-front.ts'

export type GateOptions = {
  /** The address on which it listens. */
  host: string
  /** Free ports are chosen unless given. */
  ports?: GatePorts
  resolve?: Resolve
  /** DNS servers unless a policy names others: `address` or `address:port`. */
  dnsServers: readonly string[]
  /** Returns the original destination of a redirected connection; null if it is unknown. */
  originalDestination(socket: Socket): OriginalDestination | null | Promise<OriginalDestination | null>
  /** True for addresses that no policy can open. */
  isClosed: IsClosed
  authority: EgressAuthority
  secrets: SecretReader
  log: Log
  clock: Clock
  /** Roots for hosts whose requests get headers, in PEM form; the system's unless given. */
  trust?: readonly string[]
  /** Additional roots, in PEM form. */
  furtherTrust?: readonly string[]
  limits?: Partial<GateLimits>
  onDecision?: OnDecision
}

export type Gate = EgressGate & { ports: GatePorts }

export async function createGate(options: GateOptions): Promise<Gate> {
  const { host, ports: wanted, log } = options
  const { sandboxes, tcp, dns } = createFronts(options)
  const proxyServer = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    void tcp.onConnection(socket)
  })
  const dnsServer = createServer({ allowHalfOpen: true }, (socket) => dns.onConnection(socket))
  const udp = createSocket('udp4')
  udp.on('message', (message, from) => void dns.onMessage(udp, message, from))
  const ports = {
    proxy: await listen(proxyServer, host, wanted?.proxy ?? 0),
    dns: await listen(dnsServer, host, wanted?.dns ?? 0),
  }
  await bind(udp, host, ports.dns)
  udp.on('error', (error) => log.warn({ error: errorText(error) }, 'The DNS socket of the gate failed.'))
  return {
    ports,
    admit: (address, client) => sandboxes.admit(address, client),
    forget: (address, start) => sandboxes.forget(address, start),
    async close() {
      const closed = [proxyServer, dnsServer].map((server) => once(server, 'close'))
      proxyServer.close()
      dnsServer.close()
      udp.close()
      sandboxes.closeAll()
      await Promise.all(closed)
    },
  }
}

function createFronts(options: GateOptions) {
  const { isClosed, clock, dnsServers, resolve = createResolve(clock) } = options
  const limits = { ...defaultLimits, ...options.limits }
  const sandboxes = new AdmittedSandboxes(limits, isClosed)
  const dialer = new Dialer({ ...limits, resolve, dnsServers, isClosed, clock })
  const http = new HttpFront({ ...limits, ...options, dialer, trust: createTrust(options) })
  const dns = new DnsFront({ ...options, sandboxes, limits })
  const tcp = new TcpFront({ ...options, sandboxes, dialer, http, limits })
  return { sandboxes, tcp, dns }
}

/** Loaded on first use: the system has hundreds of roots. */
function createTrust({ trust, furtherTrust = [] }: GateOptions): () => SecureContext {
  let trusted: SecureContext | undefined
  return () => {
    trusted ??= createSecureContext({ ca: [...(trust ?? getCACertificates('system')), ...furtherTrust] })
    return trusted
  }
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
