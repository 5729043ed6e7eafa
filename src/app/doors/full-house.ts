/**
 * Decides which connections give way when the server has as many as it takes: first those on which no request is open, then
 * those of the team that has the most. So whoever fills the server, with however little, pays for the next connection.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Clock, sleep } from '../../lib/clock.ts'
import { resetSocket } from '../../lib/join-sockets.ts'
import { letOthersRun } from '../../lib/let-others-run.ts'
import { requestOwnerOf } from '../../lib/request-owner.ts'

/** One in so many connections is closed at a time; of those without a request more, if that is few. */
const closedPart = 16
const minSilentClosed = 64
/** New connections come in meanwhile. It also bounds the work, however many are rejected. */
const betweenMs = 20

/** A connection of HTTP/2 carries many requests. Theirs have sockets that lead to it. */
type CarriedSocket = Duplex & { carrier?: { destroy(error: Error): void } }

type FullHouseParts = {
  server: Server
  /** Closes connections of HTTP/2 without a request. */
  endIdle: () => void
  clock: Clock
}

type Connection = { cut(): void }

export class FullHouse {
  readonly #parts: FullHouseParts
  /** Connections before TLS was agreed on, by the client's address. */
  readonly #handshakes = new Map<string, Socket>()
  /** Those without a request yet, and those whose client still sends the body of a request that was answered. */
  readonly #silent = new Set<Socket>()
  readonly #requests = new Set<IncomingMessage>()
  #isCutting = false

  constructor(parts: FullHouseParts) {
    this.#parts = parts
    const { server } = parts
    if (server instanceof https.Server) {
      server.on('connection', (socket: Socket) => this.#shakeHands(socket))
      server.on('secureConnection', (socket: Socket & { alpnProtocol?: string | false }) => {
        this.#handshakes.delete(clientOf(socket))
        // The HTTP/2 code closes its own idle connections, because it knows their streams.
        if (socket.alpnProtocol !== 'h2') this.#add(socket)
      })
    } else server.on('connection', (socket: Socket) => this.#add(socket))
    for (const name of ['request', 'checkContinue'] as const)
      server.prependListener(name, (request, response) => this.#begin(request, response))
    server.prependListener('upgrade', (request: IncomingMessage, socket: Duplex) => {
      this.#silent.delete(request.socket)
      this.#requests.add(request)
      socket.once('close', () => this.#requests.delete(request))
    })
    server.on('drop', () => void this.#cutConnections())
  }

  #shakeHands(socket: Socket): void {
    const client = clientOf(socket)
    this.#handshakes.set(client, socket)
    socket.once('close', () => {
      if (this.#handshakes.get(client) === socket) this.#handshakes.delete(client)
    })
  }

  #add(socket: Socket): void {
    this.#silent.add(socket)
    socket.once('close', () => this.#silent.delete(socket))
  }

  #begin(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    this.#silent.delete(socket)
    this.#requests.add(request)
    response.once('close', () => {
      this.#requests.delete(request)
      if (request.complete || socket.destroyed) return
      this.#silent.add(socket)
      request.once('close', () => this.#silent.delete(socket))
    })
  }

  async #cutConnections(): Promise<void> {
    if (this.#isCutting) return
    this.#isCutting = true
    try {
      await this.#closeSome()
      await sleep(this.#parts.clock, betweenMs)
    } finally {
      this.#isCutting = false
    }
  }

  /** Node does not count as idle what has not sent a request. */
  async #closeSome(): Promise<void> {
    const { server, endIdle } = this.#parts
    const wanted = Math.ceil(server.maxConnections / closedPart)
    server.closeIdleConnections()
    endIdle()
    const maxSilent = Math.max(minSilentClosed, wanted)
    for (const socket of first(this.#handshakes.values(), maxSilent)) socket.destroy()
    for (const socket of first(this.#silent, maxSilent)) socket.destroy()
    await letOthersRun()
    const missing = wanted - (server.maxConnections - (await openConnections(server)))
    for (const connection of largestHolders(this.#requests, missing)) connection.cut()
  }
}

/** The oldest connections of whoever has the most, and of that team, of the sandbox that has the most. */
function largestHolders(requests: Iterable<IncomingMessage>, count: number): Connection[] {
  if (count <= 0) return []
  const teams = new Map<string, Map<string, Map<object, Connection>>>()
  for (const request of requests) {
    const { team = '', sandboxID = '' } = requestOwnerOf(request) ?? {}
    const sandboxes = getOrAdd(teams, team, () => new Map<string, Map<object, Connection>>())
    const connections = getOrAdd(sandboxes, sandboxID, () => new Map<object, Connection>())
    const { carrier } = request.socket as CarriedSocket
    if (carrier) connections.set(carrier, { cut: () => carrier.destroy(new Error('The server is full.')) })
    else connections.set(request.socket, { cut: () => resetSocket(request.socket) })
  }
  const chosen: Connection[] = []
  for (let left = count; left > 0; left--) {
    const sandboxes = largest(teams.values(), (each) => sum(each.values()))
    const connections = sandboxes && largest(sandboxes.values(), ({ size }) => size)
    const [oldest] = connections ?? []
    if (!connections || !oldest) break
    connections.delete(oldest[0])
    chosen.push(oldest[1])
  }
  return chosen
}

const sum = (maps: Iterable<{ size: number }>) => [...maps].reduce((all, { size }) => all + size, 0)

function largest<T>(values: Iterable<T>, sizeOf: (value: T) => number): T | undefined {
  let [found, max]: [T | undefined, number] = [undefined, 0]
  for (const value of values) {
    const size = sizeOf(value)
    if (size > max) [found, max] = [value, size]
  }
  return found
}

function getOrAdd<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

const first = <T>(values: Iterable<T>, count: number): T[] => [...values].slice(0, count)

const clientOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`

const openConnections = (server: Server) =>
  new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)))
