/** What the database that the nodes share knows of them. */
import type { ClusterNode, NodeStatus } from './node.ts'

export type JoiningNode = Pick<ClusterNode, 'nodeID' | 'runID' | 'address' | 'facts' | 'load'>

/** What was ended with the node that had it. */
export type ForgottenNode = { sandboxes: number; builds: number; volumes: number }

export interface NodeStore {
  /** False: another process that has given a sign of life within `awayAfterMs` has this id. */
  join(node: JoiningNode): Promise<boolean>
  /** A sign of life. Undefined: the node was forgotten, or another process has its id. */
  renew(node: Pick<JoiningNode, 'nodeID' | 'runID' | 'load'>): Promise<NodeStatus | undefined>
  /** The process ends: the node is away from now on, and no longer than since now. */
  leave(node: Pick<JoiningNode, 'nodeID' | 'runID'>): Promise<void>
  find(nodeID: string): Promise<ClusterNode | undefined>
  /** By id. */
  list(): Promise<ClusterNode[]>
  /** False: there is no such node. */
  setStatus(nodeID: string, status: NodeStatus): Promise<boolean>
  /**
   * Removes an away node. What ran on it ends as `lost`; so do its paused sandboxes, its builds and its volumes, unless
   * other nodes can have them. Undefined: there is no such node, or it has given a sign of life within `silentForMs`.
   */
  forget(nodeID: string, at: number, silentForMs: number): Promise<ForgottenNode | undefined>
  /** Keeps the value under the name unless one is there; resolves with the one that is there then. */
  share(name: string, value: string): Promise<string>
}
