/**
 * For tests: a gate on loopback with an internet around it. Hosts have loopback addresses of their own, with the
 * real ports; sandboxes too, and the fixture plays the kernel that hands their connections over.
 */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer as createHttpServer, type RequestListener, request } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls'
import type { EgressPolicy } from '../core/ports/egress.ts'
import { type Certificate, issueCertificate, makeAuthority } from '../lib/certificates.ts'
import { systemClock } from '../lib/clock.ts'
import { silentLog } from '../lib/log.ts'
import type { OriginalDestination } from './decide.ts'
import { startDns, type TestDns } from './dns-fixture.ts'
import { createEgressAuthority, type EgressAuthority } from './egress-authority.ts'
import { createGate, type Gate, type GateOptions } from './gate.ts'

const nothingAllowed: EgressPolicy = {
  internet: false,
  allowAddresses: [],
  allowNames: [],
  denyAddresses: [],
  dnsServers: null,
  headerRules: [],
  proxy: null,
}

type Answer = { status: number; body: string; headers: Record<string, unknown> }

export type World = AsyncDisposable & {
  gate: Gate
  dns: TestDns
  /** The gate's own authority, and the one that the hosts have their certificates from. */
  authority: EgressAuthority
  internetAuthority: Certificate
  secrets: Map<string, string>
  /** Addresses that no policy opens. */
  closed: Set<string>
  sandbox: string
  /** A loopback address that this test alone uses. */
  address(last: number): string
  admit(policy: Partial<EgressPolicy>, from?: string): void
  /** Ends what `admit` began. */
  forget(): void
  /** Servers; closed with the fixture. A name is put into the zone. */
  http(last: number, listener: RequestListener, name?: string): Promise<string>
  https(last: number, name: string, listener: RequestListener): Promise<string>
  raw(last: number, port: number, listener: (socket: Socket) => void): Promise<string>
  /** A connection of a sandbox, which believes that it leads to the destination. */
  connect(destination: OriginalDestination, from?: string): Promise<Socket>
  get(to: string, headers: Record<string, string>, path?: string): Promise<Answer>
  tls(to: string, servername: string | undefined, options?: object): Promise<TLSSocket>
}

let worlds = 0

export async function startWorld(options: Partial<GateOptions> = {}): Promise<World> {
  worlds += 1
  const address = (last: number) => `127.${process.pid % 200}.${((process.pid >> 8) % 120) + worlds}.${last}`
  const sandbox = address(200)
  const folder = await mkdtemp(join(tmpdir(), 'warren-gate-'))
  const authority = createEgressAuthority(join(folder, 'own'), systemClock)
  const internetAuthority = makeAuthority('the internet')
  const dns = await startDns(address(53))
  const secrets = new Map<string, string>()
  const closed = new Set<string>()
  const wanted = new Map<string, PromiseWithResolvers<OriginalDestination>>()
  const wantedBy = (from: string, port: number) => {
    const key = `${from}:${port}`
    if (!wanted.has(key)) wanted.set(key, Promise.withResolvers())
    return wanted.get(key)!
  }
  const gate = await createGate({
    host: '0.0.0.0',
    dnsServers: [dns.server],
    originalDestination: (socket) => wantedBy(socket.remoteAddress!, socket.remotePort!).promise,
    isClosed: (one) => closed.has(one),
    authority,
    secrets: { readSecret: async (teamID, name) => secrets.get(`${teamID}/${name}`) ?? null },
    log: silentLog,
    clock: systemClock,
    trust: [internetAuthority.certificate],
    ...options,
  })
  const servers: Server[] = []
  const sockets = new Set<Socket>()
  const track = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
  }
  const serve = async (server: Server, last: number, port: number): Promise<string> => {
    servers.push(server.on('connection', track))
    await once(server.listen(port, address(last)), 'listening')
    return address(last)
  }
  const world: World = {
    gate,
    dns,
    authority,
    internetAuthority,
    secrets,
    closed,
    sandbox,
    address,
    admit(policy, from = sandbox) {
      const client = { sandboxID: `i${from}`, start: startAt(from), teamID: 'team' }
      gate.admit(from, { ...client, policy: { ...nothingAllowed, ...policy } })
    },
    forget: () => gate.forget(sandbox, startAt(sandbox)),
    async http(last, listener, name) {
      if (name) dns.zone.set(name, [address(last)])
      return await serve(createHttpServer(listener), last, 80)
    },
    async https(last, name, listener) {
      dns.zone.set(name, [address(last)])
      const inner = createHttpServer(listener)
      const server = createTlsServer(issue(internetAuthority, name), (socket) => {
        track(socket)
        inner.emit('connection', socket)
      })
      return await serve(server, last, 443)
    },
    raw: async (last, port, listener) =>
      await serve(createServer({ allowHalfOpen: true }, listener), last, port),
    async connect(destination, from = sandbox) {
      const socket = connect({
        host: '127.0.0.1',
        port: gate.ports.proxy,
        localAddress: from,
        allowHalfOpen: true,
      })
      track(socket)
      await once(socket, 'connect')
      const port = socket.localPort!
      wantedBy(from, port).resolve(destination)
      // The kernel gives the port to another connection later.
      socket.once('close', () => wanted.delete(`${from}:${port}`))
      return socket
    },
    async get(to, headers, path = '/') {
      const socket = await world.connect({ address: to, port: 80 })
      return await fetchOver(socket, headers, path)
    },
    async tls(to, servername, given = {}) {
      const socket = await world.connect({ address: to, port: 443 })
      const ca = [internetAuthority.certificate]
      const secured = connectTls({ socket, ca, ...(servername !== undefined && { servername }), ...given })
      track(secured)
      await once(secured, 'secureConnect')
      return secured
    },
    async [Symbol.asyncDispose]() {
      await gate.close()
      for (const socket of sockets) socket.destroy()
      for (const server of servers) server.close()
      await dns.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
  return world
}

export async function fetchOver(
  socket: Socket,
  headers: Record<string, string | string[]>,
  path = '/',
  given: { method?: string; body?: string } = {},
): Promise<Answer> {
  const asked = request({ createConnection: () => socket, path, headers, method: given.method ?? 'GET' })
  asked.end(given.body)
  const [response] = await once(asked, 'response')
  asked.on('error', () => {})
  let body = ''
  for await (const chunk of response) body += chunk
  return { status: response.statusCode, body, headers: response.headers }
}

export function issue(authority: Certificate, name: string): { key: string; cert: string } {
  const { key, certificate } = issueCertificate(authority, { names: [name], days: 1 })
  return { key, cert: certificate }
}

/** All that comes until the far side ends, or the connection breaks. */
export async function readAll(socket: Socket): Promise<string> {
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  await Promise.race([once(socket, 'end'), once(socket, 'close')]).catch(() => {})
  return text
}

const startAt = (address: string) => `the start at ${address}`
