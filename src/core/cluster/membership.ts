/**
 * This Warren as a node of its cluster: it joins with an id that no other living process has, gives signs of life, and
 * knows the other nodes. While the database cannot be reached, what was last known of them holds.
 */
import { AppError } from '../../lib/app-error.ts'
import { type Clock, sleep } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import {
  type ClusterNode,
  isAway,
  type JoiningNode,
  type NodeLoad,
  type NodeStatus,
  type NodeStore,
  renewEveryMs,
} from './node.ts'

/** What was read of the nodes is good for so long; whoever asks later waits for news, but not for longer than this. */
const goodForMs = 3 * renewEveryMs
const waitForNewsMs = 1000
/** That a node is away is good for less: it may have just come back. */
const awayGoodForMs = 500
/** While another process has the id of this one, it is looked at this often whether that one lives. */
const lookAgainMs = 500

export type MembershipParts = {
  nodes: NodeStore
  self: Omit<JoiningNode, 'load'>
  readLoad: () => Promise<NodeLoad>
  /** The node was forgotten while it lived: what it still has is nobody's. */
  onForgotten: () => Promise<void>
  clock: Clock
  log: Log
}

export class Membership {
  readonly #parts: MembershipParts
  readonly #reading = new JoinedWork<void>()
  #known: readonly ClusterNode[] = []
  #readAt = Number.NEGATIVE_INFINITY
  #status: NodeStatus = 'ready'
  /** Somebody wanted to know the nodes since they were last read. */
  #isAsked = false

  constructor(parts: MembershipParts) {
    this.#parts = parts
  }

  get nodeID(): string {
    return this.#parts.self.nodeID
  }

  /** As the last sign of life found it. */
  get isDraining(): boolean {
    return this.#status === 'draining'
  }

  /** Rejects with `conflict` when another process with this id gives signs of life; one that was killed gives none. */
  async join(): Promise<void> {
    const { nodes, self, readLoad, clock } = this.#parts
    const load = await readLoad()
    let silentMs = 0
    while (!(await nodes.join({ ...self, load }))) {
      const holder = await nodes.find(self.nodeID)
      if (holder && holder.silentMs < silentMs) throw idInUse(self.nodeID)
      silentMs = holder?.silentMs ?? 0
      await sleep(clock, lookAgainMs)
    }
    await this.renew()
  }

  /** To be called every `renewEveryMs`. */
  async renew(): Promise<void> {
    const { nodes, self, readLoad, onForgotten, log } = this.#parts
    const load = await readLoad()
    const status = await nodes.renew({ ...self, load })
    if (status !== undefined) {
      this.#status = status
      if (this.#isAsked) await this.#read()
      this.#isAsked = false
      return
    }
    const other = await nodes.find(self.nodeID)
    if (other && other.runID !== self.runID) {
      log.error({ other: other.address }, idInUse(self.nodeID).message)
      return
    }
    log.warn({}, 'The operator has forgotten this node. It ends what it still has, and joins anew.')
    await onForgotten()
    await nodes.join({ ...self, load })
  }

  leave(): Promise<void> {
    return this.#parts.nodes.leave(this.#parts.self)
  }

  /** All nodes, this one among them, as they were a few seconds ago. */
  async nodes(): Promise<readonly ClusterNode[]> {
    const { clock } = this.#parts
    this.#isAsked = true
    if (clock.now() - this.#readAt < goodForMs) return this.#known
    if (this.#known.length === 0) await this.#read()
    else await this.#readSoon()
    return this.#known
  }

  /** One that is not known may have just joined, and one that is away may be back, so the nodes are read again for it. */
  async find(nodeID: string): Promise<ClusterNode | undefined> {
    const known = findIn(await this.nodes(), nodeID)
    const knownForMs = this.#parts.clock.now() - this.#readAt
    if (known && (!isAway(known) || knownForMs < awayGoodForMs)) return known
    await this.#readSoon()
    return findIn(this.#known, nodeID)
  }

  async #readSoon(): Promise<void> {
    await Promise.race([this.#read(), sleep(this.#parts.clock, waitForNewsMs)])
  }

  #read(): Promise<void> {
    const { nodes, clock, log } = this.#parts
    return this.#reading.run('nodes', async () => {
      const readAt = clock.now()
      // Set before: while the database is away, only one request now and then waits for news.
      if (this.#known.length > 0) this.#readAt = readAt
      try {
        this.#known = await nodes.list()
        this.#readAt = readAt
      } catch (error) {
        // The silence of the database says nothing of the nodes.
        log.debug({ err: error }, 'The nodes could not be read.')
        if (this.#known.length === 0) throw error
      }
    })
  }
}

const findIn = (nodes: readonly ClusterNode[], nodeID: string) => nodes.find((node) => node.nodeID === nodeID)

const idInUse = (nodeID: string) =>
  new AppError(
    'conflict',
    `Another Warren that is running has the node id ${nodeID}: its data folder may be a copy of this one. Stop that ` +
      'one, or delete node.json in one of the two data folders, which makes it a new node without sandboxes.',
  )
