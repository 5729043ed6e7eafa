/**
 * Forgets nodes that are away for longer than the operator allows. A lease lets one Warren of a cluster do it
 * at a time.
 */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { LeaseStore } from '../ports/lease-store.ts'
import type { Membership } from './membership.ts'
import type { NodeStore } from './node-store.ts'

const lease = 'forget nodes'
const leaseMs = 5 * 60_000
/**
 * While the database is away, no node can give a sign of life. A Warren therefore forgets no node before the
 * database has answered it for as long as the operator allows a node to be away, or for this long if that is
 * shorter.
 */
const maxSteadyMs = 5 * 60_000

type NodeForgetterParts = {
  nodes: Pick<NodeStore, 'list' | 'forget'>
  leases: LeaseStore
  membership: Pick<Membership, 'steadyForMs'>
  /** Must be longer than `unreachableAfterMs`. */
  afterMs: number
  clock: Clock
  log: Log
}

export class NodeForgetter {
  readonly #parts: NodeForgetterParts

  constructor(parts: NodeForgetterParts) {
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { nodes, leases, membership, afterMs, clock, log } = this.#parts
    const isSteady = () => membership.steadyForMs >= Math.min(afterMs, maxSteadyMs)
    if (!isSteady()) return
    if (!(await leases.acquire(lease, leaseMs))) return
    try {
      for (const { nodeID, silentMs } of await nodes.list()) {
        // Forgetting the nodes before this one may have taken long.
        if (silentMs <= afterMs || !isSteady()) continue
        // Undefined if the node gave a sign of life since it was listed.
        const lost = await nodes.forget(nodeID, clock.now(), afterMs)
        if (lost) log.warn({ nodeID, silentMs, ...lost }, 'A node that was away for too long was forgotten.')
      }
    } finally {
      await leases.release(lease)
    }
  }
}
