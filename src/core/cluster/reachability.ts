/**
 * What this node learned of other nodes by its own connections to them. The rows say which nodes live; only an
 * attempt tells whether this node reaches one. Placement prefers reachable nodes, and the operator sees the rest.
 */
import type { Clock } from '../../lib/clock.ts'
import type { ClusterNode } from './node.ts'

/** A node at an address. A node with another address is another peer. */
export type PeerAddress = Pick<ClusterNode, 'nodeID' | 'address'>

export type PeerTrouble = PeerAddress & {
  /** Completes a sentence about the node. */
  why: string
  since: number
}

export class Reachability {
  readonly #clock: Pick<Clock, 'now'>
  readonly #troubles = new Map<string, PeerTrouble>()
  readonly #reachedAt = new Map<string, number>()
  readonly #onTrouble: (trouble: PeerTrouble) => void

  constructor(clock: Pick<Clock, 'now'>, onTrouble: (trouble: PeerTrouble) => void = () => {}) {
    this.#clock = clock
    this.#onTrouble = onTrouble
  }

  noteReached(peer: PeerAddress): void {
    const key = keyOf(peer)
    this.#reachedAt.set(key, this.#clock.now())
    this.#troubles.delete(key)
  }

  noteTrouble({ nodeID, address }: PeerAddress, why: string): void {
    const key = keyOf({ nodeID, address })
    const known = this.#troubles.get(key)
    const trouble = { nodeID, address, why, since: known?.since ?? this.#clock.now() }
    this.#reachedAt.delete(key)
    this.#troubles.set(key, trouble)
    if (known?.why !== why) this.#onTrouble(trouble)
  }

  /** Undefined if the last attempt succeeded, or if there was none. */
  troubleOf(peer: PeerAddress): PeerTrouble | undefined {
    return this.#troubles.get(keyOf(peer))
  }

  reachedWithin(peer: PeerAddress, ms: number): boolean {
    const at = this.#reachedAt.get(keyOf(peer))
    return at !== undefined && this.#clock.now() - at <= ms
  }

  troubles(): readonly PeerTrouble[] {
    return [...this.#troubles.values()]
  }

  /** Forgets peers that are no longer listed. */
  keepOnly(listed: readonly PeerAddress[]): void {
    const keys = new Set(listed.map(keyOf))
    for (const known of [this.#troubles, this.#reachedAt])
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key)
  }
}

const keyOf = ({ nodeID, address }: PeerAddress): string => `${nodeID} ${address}`
