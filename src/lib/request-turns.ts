/**
 * Handles the requests of one connection one after the other, and bounds how many a client may send ahead. Node would
 * hand on every request that one read brings, thousands of them, before anybody else on the server gets a turn.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Clock, systemClock } from './clock.ts'
import { resetSocket } from './join-sockets.ts'

/** Maximum number of pipelined requests. Clients that pipeline at all send about ten. */
const maxAhead = 16
/** How long a connection with more requests stays open, unread: a client that is cut off at once comes back at once. */
const stallMs = 2000
/** Maximum number of such connections. Further ones are closed at once, so that nobody fills the server with them. */
const maxStalled = 256

type Turn = { response: ServerResponse; handle: () => void }
type Line = { isBusy: boolean; waiting: Turn[] }

export class RequestTurns {
  readonly #lines = new WeakMap<Socket, Line>()
  readonly #clock: Clock
  #stalled = 0

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  /** Calls `handle` when the answers to all earlier requests of the connection are out. */
  enter({ socket }: IncomingMessage, response: ServerResponse, handle: () => void): void {
    const line = this.#lines.get(socket) ?? this.#open(socket)
    if (line.isBusy) line.waiting.push({ response, handle })
    else begin(socket, line, { response, handle })
  }

  /** Whether an earlier request of the connection is still unanswered. */
  isBusy({ socket }: IncomingMessage): boolean {
    return this.#lines.get(socket)?.isBusy ?? false
  }

  #open(socket: Socket): Line {
    const line: Line = { isBusy: false, waiting: [] }
    this.#lines.set(socket, line)
    stopParsing(
      socket,
      () => line.waiting.length >= maxAhead,
      () => {
        line.waiting = []
        this.#cutOff(socket)
      },
    )
    return line
  }

  #cutOff(socket: Socket): void {
    if (this.#stalled >= maxStalled) {
      resetSocket(socket)
      return
    }
    this.#stalled++
    const cancel = this.#clock.after(stallMs, () => resetSocket(socket))
    socket.once('close', () => {
      this.#stalled--
      cancel()
    })
    // Paused before the next read, and again because Node may resume the socket to read past a request.
    process.nextTick(() => socket.pause())
    setImmediate(() => socket.pause())
  }
}

function begin(socket: Socket, line: Line, { response, handle }: Turn): void {
  line.isBusy = true
  response.once('close', () => {
    const next = line.waiting.shift()
    if (!next) line.isBusy = false
    else if (socket.destroyed) line.waiting = []
    // In the next turn of the event loop, so that other connections come in between.
    else setImmediate(() => begin(socket, line, next))
  })
  handle()
}

type Parser = { onIncoming?: ((request: IncomingMessage, keepAlive: boolean) => number) | null }

/** Makes Node's parser leave the rest of its bytes alone, as after an upgrade request. */
const parseNoFurther = 2

/**
 * Calls `onTooMany` when a request comes while `isFull`; the connection then accepts no further request. This uses a private
 * field of Node's parser, because nothing else stops the parser in the middle of a read. The test beside this file fails if
 * that field changes.
 */
function stopParsing(socket: Socket, isFull: () => boolean, onTooMany: () => void): void {
  const { parser } = socket as { parser?: Parser | null }
  const original = parser?.onIncoming
  if (!parser || !original) return
  parser.onIncoming = (request, keepAlive) => {
    if (!isFull()) return original(request, keepAlive)
    onTooMany()
    return parseNoFurther
  }
}
