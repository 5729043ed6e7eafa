/**
 * This Warren as a node of its cluster: it joins with an id that no other living process has, gives signs of life, and
 * knows the other nodes. While the database cannot be reached, what was last known of them holds; and since nobody could
 * give a sign of life meanwhile, their silence counts from when it is back.
 */
import { AppError } from '../../lib/app-error.ts'
import { type Clock, sleep } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import {
  awayAfterMs,
  type ClusterNode,
  isAway,
  type NodeLoad,
  type NodeStatus,
  renewEveryMs,
} from './node.ts'
import type { JoiningNode, NodeStore } from './node-store.ts'

/** Whoever could not ask the database for longer takes it as away: a node asks it every `renewEveryMs`. */
const databaseAwayAfterMs = 3 * renewEveryMs
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
  /** When the database answered last, and since when it has done so without a pause. */
  #answeredAt = Number.NEGATIVE_INFINITY
  #steadySince = Number.POSITIVE_INFINITY
  /** The nodes that lived when the database last went away, as far as this one knew, and this one. */
  #livedBefore: ReadonlySet<string> = new Set()
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

  /** For how long the database has answered this node: every node that lives and reaches it could give signs of life. */
  get steadyForMs(): number {
    return Math.max(0, this.#parts.clock.now() - this.#steadySince)
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
    this.#noteAnswer()
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

  /** All nodes as they are now, for what must leave none out. Rejects while the database does not answer. */
  async nodesNow(): Promise<readonly ClusterNode[]> {
    return this.#withoutOutage(await this.#parts.nodes.list())
  }

  /** One that is not known may have just joined, and one that is away may be back, so the nodes are read again for it. */
  async find(nodeID: string): Promise<ClusterNode | undefined> {
    const known = findIn(await this.nodes(), nodeID)
    const knownForMs = this.#parts.clock.now() - this.#readAt
    if (known && (!isAway(known) || knownForMs < awayGoodForMs)) return known
    await this.#readSoon()
    return findIn(this.#known, nodeID)
  }

  #noteAnswer(): void {
    const now = this.#parts.clock.now()
    const wasAway = now - this.#answeredAt > databaseAwayAfterMs
    this.#answeredAt = now
    if (!wasAway) return
    this.#steadySince = now
    const living = this.#known.filter((node) => !isAway(node)).map(({ nodeID }) => nodeID)
    this.#livedBefore = new Set([this.nodeID, ...living])
  }

  /** A node that lived when the database went away has until `awayAfterMs` after its return for a sign of life. */
  #withoutOutage(listed: readonly ClusterNode[]): readonly ClusterNode[] {
    const { steadyForMs } = this
    if (steadyForMs > awayAfterMs) return listed
    return listed.map((node) =>
      isAway(node) && this.#livedBefore.has(node.nodeID) ? { ...node, silentMs: steadyForMs } : node,
    )
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
        const listed = await nodes.list()
        this.#noteAnswer()
        this.#known = this.#withoutOutage(listed)
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
