/** The nodes as the operator sees and directs them. A Warren without a cluster is its only node. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { awayAfterMs, type ClusterNode, isAway, type NodeStatus } from './node.ts'
import type { ForgottenNode, NodeStore } from './node-store.ts'
import type { OwnerStore } from './owner-store.ts'

export type NodeDirectoryParts = {
  nodes: NodeStore
  owners: Pick<OwnerStore, 'readyBuildsOf'>
  /** Reads this Warren's own state if it has no cluster; undefined in a cluster. */
  readSelf: (() => Promise<ClusterNode>) | undefined
  clock: Clock
}

export class NodeDirectory {
  readonly #parts: NodeDirectoryParts

  constructor(parts: NodeDirectoryParts) {
    this.#parts = parts
  }

  async list(): Promise<ClusterNode[]> {
    const { nodes, readSelf } = this.#parts
    return readSelf ? [await readSelf()] : nodes.list()
  }

  async get(nodeID: string): Promise<ClusterNode> {
    const found = (await this.list()).find((node) => node.nodeID === nodeID)
    if (!found) throw noSuchNode(nodeID)
    return found
  }

  /** IDs of the builds whose bytes lie on the node's disk: its own, and those it has fetched. */
  async cachedBuilds({ nodeID, load }: ClusterNode): Promise<string[]> {
    return [...(await this.#parts.owners.readyBuildsOf(nodeID)), ...load.buildsAtHand]
  }

  async setStatus(nodeID: string, status: NodeStatus): Promise<void> {
    if (this.#parts.readSelf) {
      await this.get(nodeID)
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
    if (!isAway(await this.get(nodeID))) throw stillLives(nodeID)
    const forgotten = await nodes.forget(nodeID, clock.now(), awayAfterMs)
    if (!forgotten) throw stillLives(nodeID)
    return forgotten
  }
}

const noSuchNode = (nodeID: string) =>
  new AppError('not_found', `There is no node '${nodeID}'; \`warren node list\` lists all nodes.`)

const stillLives = (nodeID: string) =>
  new AppError('conflict', `Node ${nodeID} is alive. Stop its Warren first, then forget the node.`)
