/**
 * Holds requests for a node that has just gone away, as one that restarts does, until it is back. Bounded in
 * number, bytes and time: what is over a bound is answered at once.
 */
import { type Clock, sleep } from '../lib/clock.ts'
import { JoinedWork } from '../lib/keyed-lock.ts'

/** A Warren that restarts is back within seconds; one whose process was killed has to wait until its ID is free. */
const queueWithinMs = 30_000
const lookEveryMs = 200
const maxRequests = 1000
const maxRequestsPerNode = 500
/** Of the bodies that were read already. */
const maxBytes = 16 * 1024 * 1024

/** `away`: by its row. `unreachable`: its row says that it lives. */
export type NodeCondition = 'back' | 'away' | 'unreachable'

type QueuedRequestsParts = {
  /** Never rejects. */
  look: (nodeID: string) => Promise<NodeCondition>
  clock: Clock
  /** How long a node may be gone, and how long a request waits, at most. */
  withinMs?: number
}

export type QueuedRequest = {
  nodeID: string
  /** How long the node has been gone. */
  unreachableForMs: number
  /** The row said that the node is away. Otherwise the request goes on when it does: another node may answer then. */
  isKnownUnreachable: boolean
  /** When the request came. */
  since: number
  /** Length of the body, if it was read. */
  bytes: number
  /** Aborted when the client disconnects. */
  signal: AbortSignal
}

export class QueuedRequests {
  readonly #parts: QueuedRequestsParts
  readonly #looks = new JoinedWork<NodeCondition>()
  readonly #countByNode = new Map<string, number>()
  #count = 0
  #bytes = 0

  constructor(parts: QueuedRequestsParts) {
    this.#parts = parts
  }

  now(): number {
    return this.#parts.clock.now()
  }

  /**
   * True if the request is to be tried again. False if it is over a bound, if its time is over, or if its client
   * has disconnected.
   */
  async untilBack({
    nodeID,
    unreachableForMs,
    isKnownUnreachable,
    since,
    bytes,
    signal,
  }: QueuedRequest): Promise<boolean> {
    const { clock, withinMs = queueWithinMs } = this.#parts
    const ofNode = this.#countByNode.get(nodeID) ?? 0
    if (this.#count >= maxRequests || ofNode >= maxRequestsPerNode) return false
    if (this.#bytes + bytes > maxBytes) return false
    const until = Math.min(since, clock.now() - unreachableForMs) + withinMs
    this.#add(nodeID, 1, bytes)
    try {
      while (clock.now() < until && !signal.aborted) {
        await sleep(clock, lookEveryMs)
        const condition = await this.#looks.run(nodeID, () => this.#parts.look(nodeID))
        if (condition === 'back' || (condition === 'away' && !isKnownUnreachable)) return !signal.aborted
      }
      return false
    } finally {
      this.#add(nodeID, -1, -bytes)
    }
  }

  #add(nodeID: string, count: number, bytes: number): void {
    this.#count += count
    this.#bytes += bytes
    const ofNode = (this.#countByNode.get(nodeID) ?? 0) + count
    if (ofNode > 0) this.#countByNode.set(nodeID, ofNode)
    else this.#countByNode.delete(nodeID)
  }
}
