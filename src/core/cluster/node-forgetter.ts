/** Forgets nodes that were away for longer than the operator waits for them. One Warren of a cluster does it at a time. */
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { LeaseStore } from '../event-stores.ts'
import type { NodeStore } from './node.ts'

const lease = 'forget nodes'
const leaseMs = 5 * 60_000

export type NodeForgetterParts = {
  nodes: Pick<NodeStore, 'list' | 'forget'>
  leases: LeaseStore
  /** Longer than it takes a node to be away at all. */
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
    const { nodes, leases, afterMs, clock, log } = this.#parts
    if (!(await leases.take(lease, leaseMs))) return
    try {
      for (const { nodeID, silentMs } of await nodes.list()) {
        if (silentMs <= afterMs) continue
        // Undefined: it gave a sign of life since it was listed.
        const lost = await nodes.forget(nodeID, clock.now())
        if (lost) log.warn({ nodeID, silentMs, ...lost }, 'A node that was away for too long was forgotten.')
      }
    } finally {
      await leases.release(lease)
    }
  }
}
