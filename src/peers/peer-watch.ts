/** Finds out whether peers can be reached: again and again those that could not, all others when somebody asks. */
import type { Membership } from '../core/cluster/membership.ts'
import { type ClusterNode, isUnreachable } from '../core/cluster/node.ts'
import type { PeerTrouble, Reachability } from '../core/cluster/reachability.ts'
import type { PeerConnections } from './peer-connections.ts'
import type { NodeCondition } from './queued-requests.ts'

/** A peer that was reached within this time is not tried again for the operator. */
const goodForMs = 30_000
/** Number of connections to try at a time, each of which may take three seconds. */
const checksAtOnce = 64

type PeerWatchParts = {
  membership: Pick<Membership, 'nodeID' | 'nodes' | 'find'>
  connections: Pick<PeerConnections, 'check'>
  reachability: Reachability
}

export class PeerWatch {
  readonly #parts: PeerWatchParts

  constructor(parts: PeerWatchParts) {
    this.#parts = parts
  }

  /** Call it every few seconds: a peer that can be reached again gets new sandboxes at once. */
  async retry(): Promise<void> {
    const { membership, reachability } = this.#parts
    if (reachability.troubles().length === 0) return
    reachability.keepOnly(await membership.nodes())
    await this.#check(reachability.troubles())
  }

  /** Tries those of the nodes that were not reached lately, and returns what is wrong with any of them. */
  async findTroubles(nodes: readonly ClusterNode[]): Promise<readonly PeerTrouble[]> {
    const { membership, reachability } = this.#parts
    const others = nodes.filter(({ nodeID }) => nodeID !== membership.nodeID)
    const isDue = (node: ClusterNode) =>
      !reachability.troubleOf(node) && !reachability.reachedWithin(node, goodForMs)
    await this.#check(others.filter(isDue))
    return others.flatMap((node) => reachability.troubleOf(node) ?? [])
  }

  /** Never rejects. */
  async look(nodeID: string): Promise<NodeCondition> {
    const { membership, connections, reachability } = this.#parts
    const node = await membership.find(nodeID).catch(() => undefined)
    if (!node || isUnreachable(node)) return 'away'
    if (reachability.troubleOf(node)) await connections.check(node)
    return reachability.troubleOf(node) === undefined ? 'back' : 'unreachable'
  }

  async #check(peers: readonly Pick<ClusterNode, 'nodeID' | 'address'>[]): Promise<void> {
    const queue = peers.values()
    const work = async () => {
      for (const peer of queue) await this.#parts.connections.check(peer)
    }
    await Promise.all(Array.from({ length: Math.min(checksAtOnce, peers.length) }, work))
  }
}
