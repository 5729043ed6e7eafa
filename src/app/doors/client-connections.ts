/**
 * The connections of clients that speak HTTP/1.1. A client learns only from an answer that the server leaves
 * (`Connection: close`). If the server closes a connection on which no such answer came, a request that the client sends
 * at that moment is lost, and the client cannot know whether it was carried out.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import { type Clock, sleep } from '../../lib/clock.ts'
import { letOthersRun } from '../../lib/let-others-run.ts'

type ClientConnection = {
  /** When it was opened or its last answer ended. */
  quietSince: number
  /** Bytes of the requests that were answered; undefined before the first answer ended. */
  bytesRead: number | undefined
  /** Number of requests so far. */
  requests: number
  /** The answer under way. */
  response: ServerResponse | undefined
}

const lookEveryMs = 50
/** How long a client on a busy machine may take to notice that its connection was closed. */
const noticeMs = 1000

/** Its client can send a request and does not know that the server leaves. */
const isUntold = ({ response, bytesRead }: ClientConnection) =>
  response === undefined && bytesRead !== undefined

export class ClientConnections {
  readonly #clock: Clock
  readonly #open = new Map<Socket, ClientConnection>()
  #isLeaving = false

  constructor(server: Server, clock: Clock) {
    this.#clock = clock
    const event = server instanceof https.Server ? 'secureConnection' : 'connection'
    server.on(event, (socket: Socket & { alpnProtocol?: string | false }) => {
      // The HTTP/2 code closes its own connections, because it knows their streams.
      if (socket.alpnProtocol === 'h2') return
      const unused = { bytesRead: undefined, requests: 0, response: undefined }
      this.#open.set(socket, { quietSince: clock.now(), ...unused })
      socket.once('close', () => this.#open.delete(socket))
    })
    for (const name of ['request', 'checkContinue'] as const) {
      server.prependListener(name, (request, response) => this.#answer(request, response))
    }
    server.prependListener('upgrade', ({ socket }: IncomingMessage) => this.#open.delete(socket as Socket))
  }

  /** Each answer whose head was not sent yet is the last of its connection, and tells the client so. */
  askToLeave(): void {
    this.#isLeaving = true
    for (const { response } of this.#open.values()) {
      if (response && !response.headersSent) response.shouldKeepAlive = false
    }
  }

  /** Whether a client may soon send a request on one of the connections: it was opened or used less than that long ago. */
  isInUse(quietMs: number): boolean {
    return this.#some((connection) => this.#isAwaited(connection, quietMs))
  }

  /**
   * Asks clients to leave, and resolves when each of them knows: by an answer, or because its connection was closed after
   * it was quiet for that time. The server must serve meanwhile: while it accepts no connections, clients send their
   * requests on the quiet ones that they still have.
   */
  async letLeave(quietMs: number): Promise<void> {
    this.askToLeave()
    const maxMs = quietMs + 2 * noticeMs
    for (let [waitedMs, lastClosedMs] = [0, -noticeMs]; waitedMs < maxMs; waitedMs += lookEveryMs) {
      // After a busy moment, Node runs timers before it reads the requests that have arrived.
      await letOthersRun()
      if (this.closeQuiet(quietMs)) lastClosedMs = waitedMs
      if (waitedMs - lastClosedMs >= noticeMs && !this.#some(isUntold)) return
      await sleep(this.#clock, lookEveryMs)
    }
  }

  /** Closes the connections that were used, and not within this time. Returns whether there was one. */
  closeQuiet(quietMs: number): boolean {
    let hasClosed = false
    for (const [socket, connection] of this.#open) {
      // Other bytes than those of answered requests are the beginning of the next request.
      const isQuiet = isUntold(connection) && socket.bytesRead === connection.bytesRead
      if (!isQuiet || this.#isAwaited(connection, quietMs)) continue
      socket.destroy()
      hasClosed = true
    }
    return hasClosed
  }

  #some(matches: (connection: ClientConnection) => boolean): boolean {
    for (const connection of this.#open.values()) if (matches(connection)) return true
    return false
  }

  #isAwaited({ response, quietSince }: ClientConnection, quietMs: number): boolean {
    return response === undefined && this.#clock.now() - quietSince < quietMs
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    if (this.#isLeaving) response.shouldKeepAlive = false
    const { socket } = request
    const connection = this.#open.get(socket)
    if (!connection) return
    connection.requests += 1
    const { requests } = connection
    connection.response = response
    // The end of a body may arrive after the answer.
    request.once('close', () => {
      const isAnswered = connection.requests === requests && connection.response === undefined
      if (isAnswered) connection.bytesRead = socket.bytesRead
    })
    response.once('close', () => {
      // With pipelining, the next request may be under way already.
      if (connection.response !== response) return
      connection.response = undefined
      connection.quietSince = this.#clock.now()
      connection.bytesRead = socket.bytesRead
      if (!response.shouldKeepAlive) this.#open.delete(socket)
    })
  }
}
