/** The sandboxes that the gate knows, and their open connections. */
import type { Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { GateClient } from '../core/ports/egress.ts'
import { systemClock } from '../lib/clock.ts'
import { ChunkPacer } from '../lib/http-relay/chunk-pacer.ts'
import { resetSocket } from '../lib/join-sockets.ts'
import { decide, type EgressRoute, type IsClosed, isSameRoute, type OriginalDestination } from './decide.ts'

export type ConnectionLimits = { connectionsPerClient: number; connections: number }

/** One connection of a sandbox, with all sockets that belong to it. */
export class GateConnection {
  readonly sandbox: AdmittedSandbox
  /** The original destination of the connection. */
  destination: OriginalDestination = { address: '0.0.0.0', port: 0 }
  /** Called when the policy changed and the connection may stay. */
  onPolicyChange = () => {}
  readonly #sockets = new Set<Socket>()
  readonly #uses = new Set<ConnectionUse>()
  #isCut = false

  constructor(sandbox: AdmittedSandbox) {
    this.sandbox = sandbox
  }

  /** A tracked socket is destroyed with the connection. */
  track = (socket: Socket): void => {
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => this.#sockets.delete(socket))
    if (this.#isCut) socket.destroy()
  }

  /**
   * Records the route of the connection, or of a request on it, before it begins, so that no change of the
   * policy is missed.
   */
  use(name: string | null, route: EgressRoute): () => void {
    const use = { name, route }
    this.#uses.add(use)
    return () => this.#uses.delete(use)
  }

  isAllowedBy({ policy }: GateClient, isClosed: IsClosed): boolean {
    return [...this.#uses].every(
      ({ name, route }) =>
        // The address it went to is unknown here, so the route must be decided again.
        route.to !== 'allowed-address-of' &&
        isSameRoute(route, decide(policy, name, this.destination, isClosed)),
    )
  }

  cut(): void {
    this.#isCut = true
    for (const socket of this.#sockets) resetSocket(socket)
  }
}

type ConnectionUse = { name: string | null; route: EgressRoute }

export class AdmittedSandbox {
  identity: GateClient
  readonly connections = new Set<GateConnection>()
  /** For both directions of all its connections. */
  readonly pacer = new ChunkPacer(systemClock)
  /** Sockets on which the sandbox sends DNS questions; they are counted, but not judged. */
  readonly asking = new Set<Socket>()

  constructor(identity: GateClient) {
    this.identity = identity
  }

  get policy() {
    return this.identity.policy
  }

  cutAll(): void {
    for (const connection of this.connections) connection.cut()
    for (const socket of this.asking) socket.destroy()
  }
}

export class AdmittedSandboxes {
  readonly #limits: ConnectionLimits
  readonly #isClosed: IsClosed
  readonly #byAddress = new Map<string, AdmittedSandbox>()
  #connections = 0

  constructor(limits: ConnectionLimits, isClosed: IsClosed) {
    this.#limits = limits
    this.#isClosed = isClosed
  }

  get(address: string): AdmittedSandbox | undefined {
    return this.#byAddress.get(address)
  }

  admit(address: string, identity: GateClient): void {
    const known = this.#byAddress.get(address)
    if (!known || known.identity.start !== identity.start) {
      known?.cutAll()
      this.#byAddress.set(address, new AdmittedSandbox(identity))
      return
    }
    const before = known.policy
    known.identity = identity
    if (isDeepStrictEqual(before, identity.policy)) return
    const sameProxy = isDeepStrictEqual(before.proxy, identity.policy.proxy)
    for (const connection of known.connections) {
      if (sameProxy && connection.isAllowedBy(identity, this.#isClosed)) connection.onPolicyChange()
      else connection.cut()
    }
  }

  forget(address: string, start: string): void {
    const known = this.#byAddress.get(address)
    if (known?.identity.start !== start) return
    known.cutAll()
    this.#byAddress.delete(address)
  }

  /** Null if too many are open. The connection ends with its first socket. */
  enter(sandbox: AdmittedSandbox, socket: Socket): GateConnection | null {
    if (this.isFull(sandbox)) return null
    const connection = new GateConnection(sandbox)
    sandbox.connections.add(connection)
    this.#connections += 1
    connection.track(socket)
    socket.once('close', () => {
      sandbox.connections.delete(connection)
      this.#connections -= 1
    })
    return connection
  }

  isFull(sandbox: AdmittedSandbox): boolean {
    const { connectionsPerClient, connections } = this.#limits
    return (
      sandbox.connections.size + sandbox.asking.size >= connectionsPerClient ||
      this.#connections >= connections
    )
  }

  closeAll(): void {
    for (const sandbox of this.#byAddress.values()) sandbox.cutAll()
    this.#byAddress.clear()
  }
}

/** Sockets that listen for both families show an IPv4 peer as a mapped IPv6 address. */
export const plainAddress = (address: string | undefined): string => (address ?? '').replace(/^::ffff:/, '')
