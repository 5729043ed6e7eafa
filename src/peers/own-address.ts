/** Checks, before a node joins, that its address leads to no other node. */
import { type ClusterNode, isUnreachable } from '../core/cluster/node.ts'
import type { NodeStore } from '../core/cluster/node-store.ts'
import type { PeerAddress } from '../core/cluster/reachability.ts'
import { AppError } from '../lib/app-error.ts'
import { ForeignPeer, openConnection } from './peer-connections.ts'
import type { PeerIdentity } from './peer-identity.ts'

/** Nothing answers before this node listens, so most starts wait for a refusal only. */
const answerWithinMs = 1000

/** Rejects with `conflict` if a living node has the address, or if somebody else answers there. */
export async function requireOwnAddress(
  nodes: Pick<NodeStore, 'list'>,
  identity: PeerIdentity,
  self: PeerAddress,
): Promise<void> {
  const other = (await nodes.list()).find((node) => isOtherAt(node, self))
  if (other) throw addressInUse(self, `Node ${other.nodeID} has the same address`)
  const problem = await openConnection(identity, self, answerWithinMs).then(
    (socket) => void socket.destroy(),
    (error: unknown) => (error instanceof ForeignPeer ? error : undefined),
  )
  if (problem) throw addressInUse(self, `At that address answers ${problem.who}`)
}

const isOtherAt = (node: ClusterNode, { nodeID, address }: PeerAddress): boolean =>
  node.nodeID !== nodeID && node.address === address && !isUnreachable(node)

const addressInUse = ({ address }: PeerAddress, why: string): AppError =>
  new AppError(
    'conflict',
    `This node cannot join the cluster with WARREN_PEER_ADDRESS=${address}. ${why}. Set WARREN_PEER_ADDRESS to the ` +
      'address at which the other machines reach this one.',
  )
