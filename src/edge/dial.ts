/** Opens connections to a port inside a sandbox, by the sandbox's address or through the agent's relay. */
import { request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import { envdPort, header } from '../contract/constants.ts'
import type { Endpoint } from '../core/ports/driver.ts'
import type { Route } from '../core/sandbox/network/routes.ts'
import { delay, systemClock } from '../lib/clock.ts'
import { connectUpstream } from '../lib/http-relay/upstream-socket.ts'

const connectTimeoutMs = 5_000

/** Nothing listens on the port, neither on the sandbox's address nor on its loopback. */
export class PortClosed extends Error {}

type SandboxDialOptions = {
  /** The current route of the run. */
  route: Route
  port: number
  /** Tunnels close each direction separately; pooled HTTP connections close as a whole. */
  allowHalfOpen: boolean
  /** Ports of this run that were last reached through the relay; updated here. */
  relayed: Set<number>
  /** How long to wait between attempts while a service may still be starting. */
  retryWaitsMs: readonly number[]
  signal: AbortSignal
}

export async function dial(options: SandboxDialOptions): Promise<Socket> {
  const { route, port, relayed, signal } = options
  signal.throwIfAborted()
  // The agent answered before its route was added: if it refuses a connection now, it is dead, and health
  // checks need to know at once.
  if (port === envdPort) return (await openDirect(options)) ?? Promise.reject(new PortClosed())
  for (let attempt = 0; ; attempt++) {
    const relayFirst = relayed.has(port)
    const socket = relayFirst
      ? ((await openRelay(options)) ?? (await openDirect(options)))
      : ((await openDirect(options)) ?? (await openRelay(options)))
    if (socket) return socket
    const waitMs = options.retryWaitsMs[attempt]
    if (waitMs === undefined) throw new PortClosed(`port ${port} of ${route.sandboxID} is closed`)
    await delay(waitMs, signal)
  }
}

/** Null if the port refuses; rejects on any other failure. */
function openDirect({
  route,
  port,
  allowHalfOpen,
  relayed,
  signal,
}: SandboxDialOptions): Promise<Socket | null> {
  return new Promise((resolve, reject) => {
    const { socket, release } = openSocket(route.endpoint(port), allowHalfOpen, signal)
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolve(null)
      else reject(error)
    })
    socket.once('connect', () => {
      release()
      relayed.delete(port)
      resolve(socket)
    })
  })
}

/** Null if nothing listens on the sandbox's loopback either, or if the agent cannot tell. */
function openRelay({
  route,
  port,
  allowHalfOpen,
  relayed,
  signal,
}: SandboxDialOptions): Promise<Socket | null> {
  return new Promise((resolve) => {
    const { socket, release } = openSocket(route.endpoint(envdPort), allowHalfOpen, signal)
    const request = httpRequest({
      path: `/relay?port=${port}`,
      headers: { Connection: 'Upgrade', Upgrade: 'warren-relay', [header.accessToken]: route.agentToken },
      createConnection: () => socket,
    })
    const giveUp = () => {
      relayed.delete(port)
      socket.destroy()
      resolve(null)
    }
    request.once('error', giveUp)
    request.once('response', giveUp)
    // Another program may have the agent's port: no interim answer is expected, and they could come without
    // end.
    request.once('information', giveUp)
    request.once('upgrade', (_answer, _socket, head) => {
      release()
      if (head.length > 0) socket.unshift(head)
      relayed.add(port)
      resolve(socket)
    })
    request.end()
  })
}

type Guarded = { socket: Socket; release: () => void }

/** Until released, the socket is destroyed if it takes too long or the run ends. */
function openSocket({ host, port }: Endpoint, allowHalfOpen: boolean, signal: AbortSignal): Guarded {
  const socket = connectUpstream({ host, port, allowHalfOpen, noDelay: true, keepAlive: true })
  const abort = () => socket.destroy(signal.reason as Error)
  const cancel = systemClock.after(connectTimeoutMs, () => {
    socket.destroy(new Error('the sandbox did not accept the connection'))
  })
  const release = () => {
    signal.removeEventListener('abort', abort)
    cancel()
  }
  signal.addEventListener('abort', abort, { once: true })
  // An error without a listener would end the process; the user of the socket adds a listener that handles
  // it.
  socket.on('error', () => {})
  socket.once('close', release)
  return { socket, release }
}
