/**
 * This Warren as a node of its cluster: it joins with an ID that no other living process has, gives signs of
 * life, and knows the other nodes. While the database cannot be reached, the last list of nodes stays valid.
 * No node can give a sign of life then, so silence is counted from the return of the database.
 */
import { AppError, errorText } from '../../lib/app-error.ts'
import { type Clock, sleep, waitAtMost } from '../../lib/clock.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import { clockOffsetMs, clockProblem } from './clock-offset.ts'
import {
  type ClusterNode,
  isUnreachable,
  type NodeLoad,
  type NodeStatus,
  renewEveryMs,
  unreachableAfterMs,
} from './node.ts'
import type { JoiningNode, NodeStore } from './node-store.ts'

/** The database counts as away if it has not answered for this long; a node asks it every `renewEveryMs`. */
const databaseUnreachableAfterMs = 3 * renewEveryMs
/** How long a list of nodes is fresh, and how long a caller waits for a newer list at most. */
const goodForMs = 3 * renewEveryMs
const waitForNewsMs = 1000
/**
 * How long the report that a node is away is fresh. It is shorter, because the node may have just come back.
 */
const unreachableGoodForMs = 500
/** How long a sign of life waits for a new reading of the load. */
const waitForLoadMs = 1000
/** How often to check whether another process with this node's ID still lives. */
const lookAgainMs = 500

type MembershipParts = {
  nodes: NodeStore
  self: Omit<JoiningNode, 'load'>
  readLoad: () => Promise<NodeLoad>
  /** Called when the operator has forgotten this node while it lives: nobody owns its sandboxes any more. */
  onForgotten: () => Promise<void>
  /**
   * Called once, when another process has taken this node's ID, which it can while this one gives no sign of life. Every row of
   * the node belongs to that process, so this one must change none of them any more.
   */
  onReplaced: (problem: AppError) => void
  clock: Clock
  log: Log
}

export class Membership {
  readonly #parts: MembershipParts
  readonly #reading = new JoinedWork<void>()
  readonly #loads = new JoinedWork<void>()
  #load: { reading: NodeLoad; readAt: number } | undefined
  #known: readonly ClusterNode[] = []
  #readAt = Number.NEGATIVE_INFINITY
  #status: NodeStatus = 'ready'
  #clockOffsetMs: number | undefined
  /** When the database answered last, and since when it has answered without a gap. */
  #answeredAt = Number.NEGATIVE_INFINITY
  #steadySince = Number.POSITIVE_INFINITY
  /** This node, and the nodes that it knew to be alive when the database last went away. */
  #livedBefore: ReadonlySet<string> = new Set()
  /** Somebody asked for the nodes since they were last read. */
  #isAsked = false
  #isReplaced = false

  constructor(parts: MembershipParts) {
    this.#parts = parts
  }

  get nodeID(): string {
    return this.#parts.self.nodeID
  }

  /** True if the last sign of life found the node draining. */
  get isDraining(): boolean {
    return this.#status === 'draining'
  }

  /**
   * How long the database has answered this node. In that time every living node that reaches it could give
   * signs of life.
   */
  get steadyForMs(): number {
    return Math.max(0, this.#parts.clock.now() - this.#steadySince)
  }

  /**
   * Rejects with `conflict` if a process at another place gives signs of life with this ID. A machine that failed gives
   * none, so its ID becomes free.
   */
  async join(): Promise<void> {
    const { nodes, self, clock } = this.#parts
    await this.#updateLoad()
    const load = this.#reportedLoad()
    let silentMs = 0
    while (!(await nodes.join({ ...self, load }))) {
      const present = await nodes.find(self.nodeID)
      if (present && present.silentMs < silentMs) throw idInUse(present)
      silentMs = present?.silentMs ?? 0
      await sleep(clock, lookAgainMs)
    }
    await this.renew()
  }

  /**
   * Gives signs of life until the returned function is called. A node that pauses for `unreachableAfterMs` counts as
   * dead, and others take its sandboxes. So this loop waits for nothing but its own statement: all other work has a loop of its own.
   */
  keepAlive(everyMs = renewEveryMs): () => Promise<void> {
    const { clock, log } = this.#parts
    let round = Promise.resolve()
    let isClosed = false
    const next = () =>
      clock.after(everyMs, () => {
        round = this.renew()
          .catch((err) =>
            log.error({ err }, `could not tell the others that this node lives: ${errorText(err)}`),
          )
          .then(() => {
            if (!isClosed) cancel = next()
          })
      })
    let cancel = next()
    return () => {
      isClosed = true
      cancel()
      return round
    }
  }

  /** One sign of life. */
  async renew(): Promise<void> {
    const { nodes, self, onForgotten, onReplaced, clock, log } = this.#parts
    if (this.#isReplaced) return
    await waitAtMost(clock, waitForLoadMs, this.#updateLoad())
    const load = this.#reportedLoad()
    const askedAt = clock.now()
    const sign = await nodes.renew({ ...self, load })
    this.#noteAnswer()
    if (sign !== undefined) {
      this.#status = sign.status
      const { databaseTime } = sign
      this.#noteClock(clockOffsetMs({ askedAt, databaseTime, answeredAt: clock.now() }))
      if (this.#isAsked) await this.#readSoon()
      this.#isAsked = false
      return
    }
    const other = await nodes.find(self.nodeID)
    if (other && other.runID !== self.runID) {
      this.#isReplaced = true
      onReplaced(replaced(other))
      return
    }
    log.warn({}, 'The operator has forgotten this node. The node ends its sandboxes and joins again.')
    await onForgotten()
    await nodes.join({ ...self, load })
  }

  /** Nobody would end them otherwise: their node is gone, and its machine may be too. */
  async endLateCreates(): Promise<void> {
    const { nodes, clock, log } = this.#parts
    const ended = await nodes.endLateCreates(clock.now())
    if (ended > 0) log.warn({ ended }, 'Creates of forgotten nodes, which arrived late, were ended.')
  }

  leave(): Promise<void> {
    return this.#parts.nodes.leave(this.#parts.self)
  }

  /** All nodes including this one, as of a few seconds ago. */
  async nodes(): Promise<readonly ClusterNode[]> {
    const { clock } = this.#parts
    this.#isAsked = true
    if (clock.now() - this.#readAt < goodForMs) return this.#known
    if (this.#known.length === 0) await this.#read()
    else await this.#readSoon()
    return this.#known
  }

  /** All nodes as of now, for work that must not miss any. Rejects while the database does not answer. */
  async nodesNow(): Promise<readonly ClusterNode[]> {
    return this.#withoutOutage(await this.#parts.nodes.list())
  }

  /**
   * Reads the list again for an unknown node, which may have just joined, and for one that is away, which may
   * be back.
   */
  async find(nodeID: string): Promise<ClusterNode | undefined> {
    const known = findIn(await this.nodes(), nodeID)
    const knownForMs = this.#parts.clock.now() - this.#readAt
    if (known && (!isUnreachable(known) || knownForMs < unreachableGoodForMs)) return known
    await this.#readSoon()
    return findIn(this.#known, nodeID)
  }

  /** Rejects only if no reading has succeeded yet. */
  #updateLoad(): Promise<void> {
    const { readLoad, clock, log } = this.#parts
    return this.#loads.run('load', async () => {
      try {
        this.#load = { reading: await readLoad(), readAt: clock.now() }
      } catch (error) {
        if (!this.#load) throw error
        log.debug({ err: error }, 'The load of this node could not be read.')
      }
    })
  }

  /** A node whose disk or database no longer tells its load lives on, and gets no new sandboxes. */
  #reportedLoad(): NodeLoad {
    const { reading, readAt } = this.#load!
    const offset = this.#clockOffsetMs
    const isOld = this.#parts.clock.now() - readAt > unreachableAfterMs
    return {
      ...reading,
      ...(isOld && { freeCPU: 0, freeMemoryMB: 0, warmTemplates: [] }),
      ...(offset !== undefined && { clockOffsetMs: offset }),
    }
  }

  /** Logs when the clock becomes wrong, which may be at the first sign of life, and when it is right again. */
  #noteClock(offsetMs: number): void {
    const { log } = this.#parts
    const [before, problem] = [clockProblem(this.#clockOffsetMs), clockProblem(offsetMs)]
    this.#clockOffsetMs = offsetMs
    if (problem !== undefined && before === undefined) log.warn({ offsetMs }, problem)
    if (problem === undefined && before !== undefined)
      log.info({}, 'The clock of this machine is right again.')
  }

  #noteAnswer(): void {
    const now = this.#parts.clock.now()
    const wasUnreachable = now - this.#answeredAt > databaseUnreachableAfterMs
    this.#answeredAt = now
    if (!wasUnreachable) return
    this.#steadySince = now
    const living = this.#known.filter((node) => !isUnreachable(node)).map(({ nodeID }) => nodeID)
    this.#livedBefore = new Set([this.nodeID, ...living])
  }

  /**
   * A node that was alive when the database went away has `unreachableAfterMs` after its return to give a sign of
   * life.
   */
  #withoutOutage(listed: readonly ClusterNode[]): readonly ClusterNode[] {
    const { steadyForMs } = this
    if (steadyForMs > unreachableAfterMs) return listed
    return listed.map((node) =>
      isUnreachable(node) && this.#livedBefore.has(node.nodeID) ? { ...node, silentMs: steadyForMs } : node,
    )
  }

  async #readSoon(): Promise<void> {
    await waitAtMost(this.#parts.clock, waitForNewsMs, this.#read())
  }

  #read(): Promise<void> {
    const { nodes, clock, log } = this.#parts
    return this.#reading.run('nodes', async () => {
      const readAt = clock.now()
      // Set before the read: while the database is away, only one request per interval waits for a newer
      // list.
      if (this.#known.length > 0) this.#readAt = readAt
      try {
        const listed = await nodes.list()
        this.#noteAnswer()
        this.#known = this.#withoutOutage(listed)
        this.#readAt = readAt
      } catch (error) {
        // A database that does not answer says nothing about the nodes.
        log.debug({ err: error }, 'The list of nodes could not be read.')
        if (this.#known.length === 0) throw error
      }
    })
  }
}

const findIn = (nodes: readonly ClusterNode[], nodeID: string) => nodes.find((node) => node.nodeID === nodeID)

type PresentNode = Pick<ClusterNode, 'nodeID' | 'address'>

const newIdentity =
  'delete node.json in one of the two data folders, which makes it a new node without sandboxes.'

const idInUse = ({ nodeID, address }: PresentNode) =>
  new AppError(
    'conflict',
    `Another running Warren, at ${address}, has the node ID ${nodeID}. Its data folder may be a copy of this one. Stop that ` +
      `Warren, or ${newIdentity}`,
  )

const replaced = ({ nodeID, address }: PresentNode) =>
  new AppError(
    'conflict',
    `Another Warren, at ${address}, has taken the node ID ${nodeID} while this one gave no sign of life. Its data folder may be a ` +
      'copy of this one. The sandboxes of the node belong to that Warren now, so this one ends. Stop that Warren and start this ' +
      `one again, or ${newIdentity}`,
  )
