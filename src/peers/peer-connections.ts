/** Connections to peers, reused for later requests. Each peer must show the certificate of its node. */
import type { Socket } from 'node:net'
import { connect } from 'node:tls'
import { type PeerAddress, Reachability } from '../core/cluster/reachability.ts'
import { errorText } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import { UpstreamPool } from '../lib/http-relay/upstream-pool.ts'
import { isProcessThere, LivenessProbe } from '../lib/liveness-probe.ts'
import { splitAddress } from './address.ts'
import { nodeOfPeerName, type PeerIdentity, peerName } from './peer-identity.ts'

const connectWithinMs = 3000
const maxIdle = 256
/** Shorter than the server keeps them, and long enough to save most requests the handshake. */
const idleMs = 60_000

/** No connection to the peer came about, so it has seen nothing of the request. */
export class PeerNotReached extends Error {}

export class PeerConnections {
  readonly #identity: PeerIdentity
  readonly #reachability: Reachability
  readonly #pools = new Map<string, UpstreamPool>()
  /** By address, for those with open connections. */
  readonly #probes = new Map<string, LivenessProbe>()

  constructor(identity: PeerIdentity, reachability = new Reachability(systemClock)) {
    this.#identity = identity
    this.#reachability = reachability
  }

  poolFor(peer: PeerAddress): UpstreamPool {
    const key = `${peer.nodeID} ${peer.address}`
    const known = this.#pools.get(key)
    if (known) return known
    // A request may still use the pool of an earlier address, and one that waited may bring that address back. The
    // pool's connections end by themselves: idle ones after a while, and those to a machine that is gone by the probe.
    for (const other of this.#pools.keys()) if (other.startsWith(`${peer.nodeID} `)) this.#pools.delete(other)
    const pool = new UpstreamPool({ dial: () => this.dial(peer), maxIdle, idleMs, clock: systemClock })
    this.#pools.set(key, pool)
    return pool
  }

  /** Opens a separate connection that will leave HTTP. Rejects with `PeerNotReached`. */
  async dial(peer: PeerAddress): Promise<Socket> {
    try {
      const socket = await openConnection(this.#identity, peer, connectWithinMs)
      this.#reachability.noteReached(peer)
      this.#watch(socket, peer)
      return socket
    } catch (cause) {
      const why = errorText(cause)
      this.#reachability.noteTrouble(peer, why)
      throw new PeerNotReached(`Node ${peer.nodeID} ${why}`, { cause })
    }
  }

  /** Finds out whether the peer can be reached; `Reachability` has the outcome. */
  async check(peer: PeerAddress): Promise<void> {
    const socket = await this.dial(peer).catch(() => undefined)
    socket?.destroy()
  }

  /** How long ago the peer could first not be reached; 0 if it could the last time. */
  unreachableForMs(peer: PeerAddress): number {
    const trouble = this.#reachability.troubleOf(peer)
    return trouble ? systemClock.now() - trouble.since : 0
  }

  #watch(socket: Socket, peer: PeerAddress): void {
    const { address } = peer
    const isThere = async () => {
      const answers = await isProcessThere(splitAddress(address))
      if (!answers) this.#reachability.noteTrouble(peer, `does not answer at ${address}`)
      return answers
    }
    const probe = this.#probes.get(address) ?? new LivenessProbe({ isThere, clock: systemClock })
    this.#probes.set(address, probe)
    const stop = probe.watch(socket)
    socket.once('close', () => {
      stop()
      if (probe.isIdle && this.#probes.get(address) === probe) this.#probes.delete(address)
    })
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.destroy()
    this.#pools.clear()
  }
}

/** Rejects with the rest of a sentence about the node. */
export function openConnection(
  { authority: ca, certificate: cert, key }: PeerIdentity,
  { nodeID, address }: PeerAddress,
  withinMs: number,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...splitAddress(address), ca, cert, key, servername: peerName(nodeID) })
    socket.setNoDelay(true)
    const fail = (error: Error) => {
      cancel()
      socket.destroy()
      reject(error)
    }
    const cancel = systemClock.after(withinMs, () => fail(new Error(`does not answer at ${address}`)))
    // An error without a listener would end the process; the user of the socket adds a listener that
    // handles it.
    socket.on('error', (cause) => fail(whyNotReached(cause, address)))
    socket.once('secureConnect', () => {
      cancel()
      resolve(socket)
    })
  })
}

/** Another node, or something that is no node of this cluster, answers at the address of a peer. */
export class ForeignPeer extends Error {
  readonly who: string

  constructor(who: string, address: string, cause: unknown) {
    super(`cannot be reached: ${who} answers at ${address}`, { cause })
    this.who = who
  }
}

type TlsError = NodeJS.ErrnoException & { cert?: { subjectaltname?: string } }

function whyNotReached(cause: TlsError, address: string): Error {
  const { code = '' } = cause
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const other = nodeOfPeerName(cause.cert?.subjectaltname)
    return new ForeignPeer(other === undefined ? 'another server' : `node ${other}`, address, cause)
  }
  if (untrusted.has(code)) return new ForeignPeer('a server of another cluster', address, cause)
  return new Error(`does not answer at ${address} (${code || cause.message})`, { cause })
}

/** Codes of OpenSSL for a certificate of another authority. */
const untrusted: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_SIGNATURE_FAILURE',
])
