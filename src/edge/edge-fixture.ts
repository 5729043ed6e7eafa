/** For tests: an edge on loopback, and plain servers that stand in for sandboxes. */
import { once } from 'node:events'
import http, { type IncomingMessage, type RequestListener } from 'node:http'
import net, { type AddressInfo, type Socket } from 'node:net'
import { type Route, RouteTable } from '../core/sandbox/network/routes.ts'
import { silentLog } from '../lib/log.ts'
import { createEdge, type EdgeOptions } from './edge.ts'

/** Nothing listens there on any sane machine, and binding it takes a privilege. */
const closedPort = 1

export const agentToken = 'agent-token'
export const domain = 'sandbox.test'

export type Sandbox = {
  sandboxID: string
  /** Makes the sandbox's port lead to a server of the test. */
  map(port: number, realPort: number): void
  remove(): void
  /** The sandbox goes on, on another node. */
  depart(): Promise<void>
}

type SandboxOptions = { sandboxID?: string; trafficToken?: string; agentToken?: string } & Pick<
  Route,
  'maskHost' | 'tlsPorts' | 'hostToken'
>

export type EdgeFixture = AsyncDisposable & {
  port: number
  routes: RouteTable
  /** Connections taken by the edge and by services, and not closed yet. */
  sockets: ReadonlySet<Socket>
  /** Closes the edge alone. */
  close(): void
  sandbox(options?: SandboxOptions): Sandbox
  /** An HTTP server; closed with the fixture. */
  service(listener: RequestListener): Promise<http.Server & { port: number }>
  /** A TCP server; closed with the fixture. */
  raw(listener: (socket: Socket) => void): Promise<{ port: number }>
}

export async function edgeFixture(options: Partial<EdgeOptions> = {}): Promise<EdgeFixture> {
  const routes = new RouteTable()
  const log = silentLog
  const edge = createEdge({ routes, domain, log, retryWaitsMs: [1, 1], ...options })
  const server = http.createServer(edge.serverOptions)
  edge.attach(server, (request, response) => {
    request.resume()
    response.end('the API')
  })
  const servers: net.Server[] = [server]
  const sockets = new Set<Socket>()
  const listen = async (listening: net.Server): Promise<number> => {
    listening.on('connection', (socket) => {
      sockets.add(socket)
      socket.on('error', () => {}).once('close', () => sockets.delete(socket))
    })
    await once(listening.listen(0, '127.0.0.1'), 'listening')
    return (listening.address() as AddressInfo).port
  }
  let made = 0
  return {
    port: await listen(server),
    routes,
    sockets,
    close: () => edge.close(),
    sandbox({ sandboxID = `isandbox${++made}`, trafficToken, ...more } = {}) {
      const ports = new Map<number, number>()
      const runID = `run-${++made}`
      const endpoint = (port: number) => ({ host: '127.0.0.1', port: ports.get(port) ?? closedPort })
      const leadsTo = { endpoint, start: runID, teamID: 'team' }
      routes.set({ sandboxID, runID, ...leadsTo, agentToken, trafficToken: trafficToken ?? null, ...more })
      return {
        sandboxID,
        map: (port, realPort) => void ports.set(port, realPort),
        remove: () => routes.remove(sandboxID, runID),
        depart: () => routes.depart(sandboxID, runID),
      }
    },
    async service(listener) {
      const service = http.createServer(listener)
      servers.push(service)
      return Object.assign(service, { port: await listen(service) })
    },
    async raw(listener) {
      const service = net.createServer({ allowHalfOpen: true }, listener)
      servers.push(service)
      return { port: await listen(service) }
    },
    async [Symbol.asyncDispose]() {
      edge.close()
      for (const socket of sockets) socket.destroy()
      await Promise.all(servers.map((listening) => new Promise((done) => listening.close(done))))
    },
  }
}

export type Reply = { status: number; headers: http.IncomingHttpHeaders; rawHeaders: string[]; body: string }

/** One request on a connection of its own; rejects when the connection breaks. */
export async function fetchOnce(
  port: number,
  options: http.RequestOptions & { body?: string } = {},
): Promise<Reply> {
  const request = http.request({ host: '127.0.0.1', port, agent: false, ...options })
  request.end(options.body)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return { ...headOf(response), body: await textOf(response) }
}

export const headOf = (response: IncomingMessage) => ({
  status: response.statusCode ?? 0,
  headers: response.headers,
  rawHeaders: response.rawHeaders,
})

export async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks).toString('latin1')
}

/** Sends raw bytes and gives back all that comes until the other side closes. */
export async function rawExchange(port: number, text: string): Promise<string> {
  const socket = net.connect({ host: '127.0.0.1', port })
  socket.write(text, 'latin1')
  return textOf(socket)
}

/** The headers that lead to a port of a sandbox. */
export const to = (sandbox: { sandboxID: string }, port: number): { Host: string } => ({
  Host: `${port}-${sandbox.sandboxID}.${domain}`,
})
