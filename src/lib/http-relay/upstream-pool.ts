/**
 * Keeps connections to the ports of one peer for later requests. It is an agent for Node's HTTP client. Node's own agent
 * merges options, builds names and sets a timer of the connection for every request; this one does not.
 */
import { Agent, type ClientRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../clock.ts'
import {
  failConnection,
  forgetSentRequest,
  giveConnection,
  sentRequestOf,
} from '../node-internals/client-connection.ts'
import { headerValue } from './headers.ts'

/** Shorter than the five seconds after which common servers drop an idle connection. */
const usualIdleMs = 4_000
/** Subtracted from the time that a server announces, because the server begins to count earlier. */
const hintMarginMs = 1_000

type UpstreamPoolOptions = {
  dial(port: number): Promise<Socket>
  /** Maximum number of idle connections per port. */
  maxIdle: number
  /** How long an idle connection is kept, unless the server announces less. */
  idleMs?: number
  clock: Clock
}

type Connection = { socket: Socket; port: number; idleUntilMs: number | null }

export class UpstreamPool extends Agent {
  readonly #options: UpstreamPoolOptions
  readonly #open = new Set<Connection>()
  /** Idle connections by port; the last used one is taken first. */
  readonly #idle = new Map<number, Connection[]>()
  #cancelSweep: (() => void) | null = null

  constructor(options: UpstreamPoolOptions) {
    super({ keepAlive: true })
    this.#options = options
  }

  /** Node's client calls this once for each request. */
  addRequest(request: ClientRequest, { port }: { port: number }): void {
    const connection = this.#takeIdle(port)
    if (connection) {
      request.reusedSocket = true
      connection.socket.ref()
      giveConnection(request, connection.socket)
      return
    }
    this.#options.dial(port).then(
      (socket) => {
        this.#adopt(socket, port)
        giveConnection(request, socket)
      },
      (error) => failConnection(request, error),
    )
  }

  override destroy(): void {
    this.#cancelSweep?.()
    for (const { socket } of this.#open) socket.destroy()
  }

  #takeIdle(port: number): Connection | undefined {
    const idle = this.#idle.get(port)
    for (;;) {
      const connection = idle?.pop()
      if (connection?.socket.destroyed) continue
      if (connection) connection.idleUntilMs = null
      return connection
    }
  }

  #adopt(socket: Socket, port: number): void {
    const connection: Connection = { socket, port, idleUntilMs: null }
    this.#open.add(connection)
    socket.on('free', () => this.#recycle(connection))
    socket.on('agentRemove', () => this.#forget(connection))
    socket.on('close', () => this.#forget(connection))
    // Bytes that arrive without a request would be read as the answer to the next request.
    socket.on('data', () => {
      if (connection.idleUntilMs !== null) socket.destroy()
    })
    socket.on('error', () => {})
  }

  #recycle(connection: Connection): void {
    const { socket, port } = connection
    const request = sentRequestOf(socket)
    const idle = this.#idle.get(port) ?? []
    const idleMs = request?.shouldKeepAlive ? this.#idleMsAfter(request.res) : 0
    const isSpent = !socket.writable || socket.readableLength > 0
    if (isSpent || idleMs <= 0 || idle.length >= this.#options.maxIdle) {
      socket.destroy()
      return
    }
    forgetSentRequest(socket)
    connection.idleUntilMs = this.#options.clock.now() + idleMs
    // Without this, nobody would notice bytes or the end of the connection.
    if (socket.isPaused()) socket.resume()
    socket.unref()
    if (idle.push(connection) === 1) this.#idle.set(port, idle)
    if (!this.#cancelSweep) this.#sweepIn(idleMs)
  }

  #idleMsAfter(answer: IncomingMessage | null): number {
    const { idleMs = usualIdleMs } = this.#options
    const hint = answer ? headerValue(answer.rawHeaders, 'keep-alive') : undefined
    const seconds = hint === undefined ? undefined : /^timeout=(\d+)/.exec(hint)?.[1]
    return seconds ? Math.min(idleMs, Number(seconds) * 1000 - hintMarginMs) : idleMs
  }

  #forget(connection: Connection): void {
    this.#open.delete(connection)
    const idle = this.#idle.get(connection.port)
    const index = idle?.indexOf(connection) ?? -1
    if (index >= 0) idle!.splice(index, 1)
  }

  #sweepIn(ms: number): void {
    this.#cancelSweep = this.#options.clock.after(ms, () => this.#sweep())
  }

  /** One timer for all connections. It is set again while any of them is idle. */
  #sweep(): void {
    const now = this.#options.clock.now()
    let next = Number.POSITIVE_INFINITY
    this.#cancelSweep = null
    for (const [port, connections] of this.#idle) {
      for (const { socket, idleUntilMs } of [...connections]) {
        if (idleUntilMs! <= now) socket.destroy()
        else next = Math.min(next, idleUntilMs!)
      }
      const left = connections.filter(({ socket }) => !socket.destroyed)
      if (left.length > 0) this.#idle.set(port, left)
      else this.#idle.delete(port)
    }
    if (next < Number.POSITIVE_INFINITY) this.#sweepIn(next - now)
  }
}
