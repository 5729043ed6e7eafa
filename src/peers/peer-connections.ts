/** Connections to peers, reused for later requests. Each peer must show the certificate of its node. */
import type { Socket } from 'node:net'
import { connect } from 'node:tls'
import type { ClusterNode } from '../core/cluster/node.ts'
import { systemClock } from '../lib/clock.ts'
import { UpstreamPool } from '../lib/http-relay/upstream-pool.ts'
import { isMachineThere, LivenessProbe } from '../lib/liveness-probe.ts'
import { splitAddress } from './address.ts'
import { type PeerIdentity, peerName } from './peer-identity.ts'

const connectWithinMs = 3000
const mostIdle = 256
/** Shorter than the server keeps them, and long enough to save most requests the handshake. */
const idleMs = 60_000

export type PeerAddress = Pick<ClusterNode, 'nodeID' | 'address'>

export class PeerConnections {
  readonly #identity: PeerIdentity
  readonly #pools = new Map<string, UpstreamPool>()
  /** By address, for those with open connections. */
  readonly #probes = new Map<string, LivenessProbe>()

  constructor(identity: PeerIdentity) {
    this.#identity = identity
  }

  poolFor(peer: PeerAddress): UpstreamPool {
    const key = `${peer.nodeID} ${peer.address}`
    const known = this.#pools.get(key)
    if (known) return known
    for (const [other, pool] of this.#pools) {
      if (!other.startsWith(`${peer.nodeID} `)) continue
      this.#pools.delete(other)
      pool.destroy()
    }
    const pool = new UpstreamPool({ dial: () => this.dial(peer), mostIdle, idleMs, clock: systemClock })
    this.#pools.set(key, pool)
    return pool
  }

  /** Opens a separate connection that will leave HTTP. */
  dial({ nodeID, address }: PeerAddress): Promise<Socket> {
    const { authority: ca, certificate: cert, key } = this.#identity
    return new Promise((resolve, reject) => {
      const socket = connect({ ...splitAddress(address), ca, cert, key, servername: peerName(nodeID) })
      socket.setNoDelay(true)
      const fail = (error: Error) => {
        cancel()
        socket.destroy()
        reject(error)
      }
      const cancel = systemClock.after(connectWithinMs, () => fail(new Error('the node does not answer')))
      // An error without a listener would end the process; the user of the socket adds a listener that
      // handles it.
      socket.on('error', fail)
      socket.once('secureConnect', () => {
        cancel()
        this.#watch(socket, address)
        resolve(socket)
      })
    })
  }

  #watch(socket: Socket, address: string): void {
    const isThere = () => isMachineThere(splitAddress(address))
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
