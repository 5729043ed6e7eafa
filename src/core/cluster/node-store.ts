/** The nodes of the cluster in their shared database. */
import type { ClusterNode, NodeStatus } from './node.ts'

export type JoiningNode = Pick<ClusterNode, 'nodeID' | 'runID' | 'address' | 'facts' | 'load'>

/** `databaseTime`: when the database recorded the sign of life, by its own clock. */
export type RecordedSign = { status: NodeStatus; databaseTime: number }

/** Number of objects that ended with the forgotten node. */
export type ForgottenNode = { sandboxes: number; builds: number; volumes: number }

export interface NodeStore {
  /** False if a process at another place that gave a sign of life within `unreachableAfterMs` has this ID. */
  join(node: JoiningNode): Promise<boolean>
  /** Records a sign of life. Undefined if the node was forgotten or another process has its ID. */
  renew(node: Pick<JoiningNode, 'nodeID' | 'runID' | 'load'>): Promise<RecordedSign | undefined>
  /** Called when the process ends: the node counts as away from now on, with its silence starting now. */
  leave(node: Pick<JoiningNode, 'nodeID' | 'runID'>): Promise<void>
  find(nodeID: string): Promise<ClusterNode | undefined>
  /** Ordered by ID. */
  list(): Promise<ClusterNode[]>
  /** False while a node may remove an object from which the memory of a running sandbox arrives. */
  allKeepArriving(): Promise<boolean>
  /** False if there is no such node. */
  setStatus(nodeID: string, status: NodeStatus): Promise<boolean>
  /**
   * Removes a node that is away. Its running sandboxes end as `lost`; so do its paused sandboxes, builds and
   * volumes, unless other nodes can use them. Stored sandboxes that were being resumed, and running ones whose memory was still
   * arriving, are paused again, as they were before the resume. Undefined if there is no such node, or if it gave a sign of life within `silentForMs`.
   */
  forget(nodeID: string, at: number, silentForMs: number): Promise<ForgottenNode | undefined>
  /**
   * Ends creates of nodes that were forgotten, whose insert took effect only after that. Returns their number.
   */
  endLateCreates(at: number): Promise<number>
  /** Stores the value under the name unless the name has a value already. Returns the value of the name. */
  share(name: string, value: string): Promise<string>
  findShared(name: string): Promise<string | undefined>
}
