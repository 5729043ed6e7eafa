/** The nodes as the operator sees and directs them. A Warren without a cluster is its only node. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { clockProblem } from './clock-offset.ts'
import { type ClusterNode, isUnreachable, type NodeStatus, unreachableAfterMs } from './node.ts'
import type { ForgottenNode, NodeStore } from './node-store.ts'
import type { OwnerStore } from './owner-store.ts'
import type { PeerTrouble } from './reachability.ts'

export type NodeDirectoryParts = {
  nodes: NodeStore
  owners: Pick<OwnerStore, 'readyBuildsOf'>
  /** The volumes that were lost with forgotten nodes. `foundAt`: null if the node does not have the disk. */
  listLostVolumes: () => Promise<readonly { nodeID: string; foundAt: number | null }[]>
  /** Reads this Warren's own state if it has no cluster; undefined in a cluster. */
  readSelf: (() => Promise<ClusterNode>) | undefined
  /** Tells for each of these nodes that this node cannot reach why. Undefined without a cluster. */
  findTroubles?: ((nodes: readonly ClusterNode[]) => Promise<readonly PeerTrouble[]>) | undefined
  clock: Clock
}

/** `problem`: sentences for the operator. */
export type ListedNode = ClusterNode & { problem?: string }

export class NodeDirectory {
  readonly #parts: NodeDirectoryParts

  constructor(parts: NodeDirectoryParts) {
    this.#parts = parts
  }

  /** With the problems that this node sees: it looks at nodes that it has not reached lately. */
  async list(): Promise<ListedNode[]> {
    const { findTroubles, listLostVolumes } = this.#parts
    const listed = await this.#rows()
    const living = listed.filter((node) => !isUnreachable(node))
    const troubles = (await findTroubles?.(living)) ?? []
    const found = (await listLostVolumes()).filter(({ foundAt }) => foundAt !== null)
    return listed.map((node) => {
      const volumes = found.filter(({ nodeID }) => nodeID === node.nodeID).length
      const problem = problemOf(node, living, troubles, volumes)
      return problem === undefined ? node : { ...node, problem }
    })
  }

  async get(nodeID: string): Promise<ListedNode> {
    return find(await this.list(), nodeID)
  }

  async #rows(): Promise<ClusterNode[]> {
    const { nodes, readSelf } = this.#parts
    return readSelf ? [await readSelf()] : nodes.list()
  }

  /** IDs of the builds whose bytes lie on the node's disk: its own, and those it has fetched. */
  async cachedBuilds({ nodeID, load }: ClusterNode): Promise<string[]> {
    return [...(await this.#parts.owners.readyBuildsOf(nodeID)), ...load.buildsAtHand]
  }

  async setStatus(nodeID: string, status: NodeStatus): Promise<void> {
    if (this.#parts.readSelf) {
      find(await this.#rows(), nodeID)
      throw new AppError(
        'conflict',
        'This Warren is not in a cluster, so no other node could take over its work.',
      )
    }
    if (!(await this.#parts.nodes.setStatus(nodeID, status))) throw noSuchNode(nodeID)
  }

  /** For a node that does not come back: everything that only its disk had is lost. */
  async forget(nodeID: string): Promise<ForgottenNode> {
    const { nodes, clock } = this.#parts
    if (!isUnreachable(find(await this.#rows(), nodeID))) throw stillLives(nodeID)
    const forgotten = await nodes.forget(nodeID, clock.now(), unreachableAfterMs)
    if (!forgotten) throw stillLives(nodeID)
    return forgotten
  }
}

/** Undefined for a node that is away: its state says so. */
function problemOf(
  node: ClusterNode,
  living: readonly ClusterNode[],
  troubles: readonly PeerTrouble[],
  foundVolumes: number,
): string | undefined {
  if (isUnreachable(node)) return undefined
  const { nodeID, address } = node
  const same = nodesAt(address, living).filter((other) => other.nodeID !== nodeID)
  const sentences = same.map((other) => sharesAddress(node, other.nodeID))
  const trouble = troubles.find((one) => one.nodeID === nodeID && one.address === address)
  if (trouble) sentences.push(`This node ${trouble.why}, as seen from the node that was asked.`)
  const clock = clockProblem(node.load.clockOffsetMs)
  if (clock !== undefined) sentences.push(clock)
  if (foundVolumes > 0) sentences.push(hasLostVolumes(foundVolumes))
  return sentences.length === 0 ? undefined : sentences.join(' ')
}

const hasLostVolumes = (count: number) =>
  `This node has the disks of ${count} volumes that were lost when a node was forgotten: \`warren volume lost\` lists them.`

const nodesAt = (address: string, nodes: readonly ClusterNode[]) =>
  nodes.filter((node) => node.address === address)

const sharesAddress = ({ address }: ClusterNode, otherID: string) =>
  `Node ${otherID} has the same address ${address}: set WARREN_PEER_ADDRESS on each machine to its own address.`

function find<T extends ClusterNode>(listed: readonly T[], nodeID: string): T {
  const found = listed.find((node) => node.nodeID === nodeID)
  if (!found) throw noSuchNode(nodeID)
  return found
}

const noSuchNode = (nodeID: string) =>
  new AppError('not_found', `There is no node '${nodeID}'; \`warren node list\` lists all nodes.`)

const stillLives = (nodeID: string) =>
  new AppError('conflict', `Node ${nodeID} is alive. Stop its Warren first, then forget the node.`)
