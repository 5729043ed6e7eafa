/**
 * Decides which node answers a request, by the row of the object it is about and by the nodes' signs of life.
 * Sends nothing: src/peers does that, and asks again if a peer reports that it is not the owner.
 */
import { AppError, isAppError } from '../../lib/app-error.ts'
import { SandboxNotHere } from '../sandbox/row/errors.ts'
import type { TakeOver } from './forwarder.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isUnreachable, unreachableAfterMs } from './node.ts'
import type { Owned, Owner } from './owner-store.ts'
import type { Owners } from './owners.ts'

const retryUnreachableAfterSeconds = 5
const retryMigratedAfterSeconds = 1

/** The node that must answer a request cannot do so now. It may be back soon. */
export class NodeIsUnreachable extends AppError {
  readonly nodeID: string
  readonly unreachableForMs: number
  /** True if the node's row shows that it is unreachable; false if only this node could not reach it. */
  readonly isKnownUnreachable: boolean
  /** The node may have seen the request, which changes nothing. */
  readonly wasSent: boolean

  constructor(
    { nodeID, unreachableForMs, isKnownUnreachable, wasSent = false }: UnreachableNode,
    message: string,
    options: { afterSeconds: number; cause?: unknown },
  ) {
    const { afterSeconds, cause } = options
    super('unavailable', message, { cause, retry: { should: true, afterSeconds } })
    this.nodeID = nodeID
    this.unreachableForMs = unreachableForMs
    this.isKnownUnreachable = isKnownUnreachable
    this.wasSent = wasSent
  }
}

type UnreachableNode = {
  nodeID: string
  unreachableForMs: number
  isKnownUnreachable: boolean
  wasSent?: boolean
}

/** How a node handles a request at its door. */
type Course =
  | { kind: 'answer' }
  | { kind: 'pass on'; node: ClusterNode }
  /**
   * The owner is away and any node can take the sandbox over: this node does so, after it has authorized the
   * client.
   */
  | { kind: 'take over' }
  | { kind: 'tell that it is away' }
  /** The owner is a Warren that shares the database but is not a node of the cluster. */
  | { kind: 'tell that it is out of reach' }

/**
 * `ownerNode` is undefined if no node has the owner's ID. A forgotten node leaves nothing but rows: its
 * sandboxes, builds and volumes ended when it was forgotten.
 */
export function chooseCourse(
  selfID: string,
  what: Owned,
  owner: Owner | undefined,
  ownerNode: ClusterNode | undefined,
): Course {
  // If the object does not exist, the node that was asked reports that.
  if (!owner || owner.nodeID === selfID) return { kind: 'answer' }
  if (ownerNode && !isUnreachable(ownerNode)) return { kind: 'pass on', node: ownerNode }
  if (what.kind === 'sandbox' && owner.isMovable) return { kind: 'take over' }
  if (ownerNode) return { kind: 'tell that it is away' }
  const isAlive = what.kind === 'sandbox' || what.kind === 'volume'
  return { kind: isAlive ? 'tell that it is out of reach' : 'answer' }
}

type RequestRouterParts = {
  membership: Pick<Membership, 'nodeID' | 'find'>
  owners: Owners
  takeOver: TakeOver
  /** Resolves when the sandbox is not on its way from this node to another. */
  settled: (sandboxID: string) => Promise<void>
}

/**
 * `misdirected`: a peer passed the request to this node, which is not the owner. `absent`: the owner is away,
 * and this node must take the sandbox over before it answers.
 */
type Answerer = 'here' | 'misdirected' | 'absent' | ClusterNode

export class RequestRouter {
  readonly #parts: RequestRouterParts

  constructor(parts: RequestRouterParts) {
    this.#parts = parts
  }

  /**
   * Rejects with `unavailable` if the owner is away. Changes nothing, because the client is not authorized
   * yet.
   */
  async route(what: Owned, { isFromPeer }: { isFromPeer: boolean }): Promise<Answerer> {
    const { owners, settled } = this.#parts
    if (what.kind === 'sandbox') await settled(what.id)
    const remembered = await this.#courseFor(what, await owners.find(what))
    if (remembered.kind === 'answer') return 'here'
    if (remembered.kind === 'pass on' && !isFromPeer) return remembered.node
    // The object may have moved since its owner was remembered.
    const owner = await owners.read(what)
    const course = await this.#courseFor(what, owner)
    if (course.kind === 'answer') return 'here'
    if (isFromPeer) return 'misdirected'
    if (course.kind === 'pass on') return course.node
    if (course.kind === 'take over') return 'absent'
    throw await this.#whyNot(what, owner!, course)
  }

  /**
   * Looks the owner up for a request of a client that cannot be sent twice. Returns the remembered node while
   * the database does not answer.
   */
  async routeByRow(what: Owned, remembered: ClusterNode): Promise<'here' | 'absent' | ClusterNode> {
    const { owners } = this.#parts
    try {
      const course = await this.#courseFor(what, await owners.read(what))
      if (course.kind === 'answer') return 'here'
      if (course.kind === 'pass on') return course.node
      return course.kind === 'take over' ? 'absent' : remembered
    } catch (error) {
      if (!isAppError(error, 'unavailable')) throw error
      return remembered
    }
  }

  /**
   * Takes over a sandbox that `route` found `absent`, for an authorized client, as `Forwarder.takeOver`
   * says.
   */
  async takeOver(sandboxID: string, { memory }: { memory: boolean }): Promise<boolean> {
    const { owners, takeOver } = this.#parts
    const what = { kind: 'sandbox', id: sandboxID } as const
    // The owner may be back, or another node may have taken the sandbox.
    const owner = await owners.read(what)
    const course = await this.#courseFor(what, owner)
    if (course.kind === 'answer') return true
    if (course.kind === 'pass on') return false
    if (course.kind !== 'take over') throw await this.#whyNot(what, owner!, course)
    if (!(await takeOver(sandboxID, { memory, from: owner!.nodeID }))) return false
    owners.forget(what)
    return true
  }

  /**
   * After `route` chose this node and before it answered, another node may have taken the sandbox. If `error` says that there was no row
   * here, a row that is here by now has come back meanwhile.
   */
  async whyMissing(what: Owned, error: AppError): Promise<AppError | undefined> {
    const { owners, membership } = this.#parts
    const owner = await owners.read(what)
    const isElsewhere = owner && owner.nodeID !== membership.nodeID
    return isElsewhere || (owner && error instanceof SandboxNotHere) ? isMigrating(what) : undefined
  }

  /** Finds the owner after a peer reported that it is not. The owner may be this node. */
  async routeAgain(what: Owned): Promise<ClusterNode> {
    const { owners, membership } = this.#parts
    const owner = await owners.read(what)
    const node = await membership.find(owner?.nodeID ?? membership.nodeID)
    if (!node || isUnreachable(node)) throw isMigrating(what)
    return node
  }

  /**
   * Remembers which peer created a sandbox for a request of this door, so that later requests find it without
   * the database.
   */
  rememberMade(sandboxID: string, nodeID: string): void {
    this.#parts.owners.remember({ kind: 'sandbox', id: sandboxID }, { nodeID, isMovable: false })
  }

  async #courseFor(what: Owned, owner: Owner | undefined): Promise<Course> {
    const { membership } = this.#parts
    const isElsewhere = owner && owner.nodeID !== membership.nodeID
    const node = isElsewhere ? await membership.find(owner.nodeID) : undefined
    return chooseCourse(membership.nodeID, what, owner, node)
  }

  async #whyNot(what: Owned, owner: Owner, { kind }: Course): Promise<AppError> {
    return kind === 'tell that it is out of reach'
      ? isOutOfReach(what, owner, 'that one')
      : this.#isUnreachable(what, owner)
  }

  async #isUnreachable({ kind, id }: Owned, { nodeID }: Owner): Promise<AppError> {
    const node = await this.#parts.membership.find(nodeID)
    // A node that leaves counts as silent for `unreachableAfterMs` at once.
    const unreachableForMs = node ? node.silentMs - unreachableAfterMs : Number.POSITIVE_INFINITY
    return new NodeIsUnreachable(
      { nodeID, unreachableForMs, isKnownUnreachable: true },
      `The ${nouns[kind]} ${id} is on node ${nodeID}, which has given no sign of life lately. Nothing is lost; it can be used ` +
        'again when the node is back. Try again later.',
      { afterSeconds: retryUnreachableAfterSeconds },
    )
  }
}

const nouns: Record<Owned['kind'], string> = {
  sandbox: 'sandbox',
  log: 'log of sandbox',
  build: 'build',
  volume: 'volume',
  template: 'template',
  quarantined: 'snapshot',
  'lost volume': 'lost volume',
  node: 'node',
}

/** Two Warrens share a database, and `whose` lacks the setting by which they reach each other. */
export const isOutOfReach = (
  { kind, id }: Owned,
  { nodeID }: Owner,
  whose: 'this one' | 'that one',
): AppError =>
  new AppError(
    'misdirected',
    `The ${nouns[kind]} ${id} is on node ${nodeID}, a Warren on the same database that cannot be reached from here: ` +
      `${whose} has no WARREN_PEER_ADDRESS. Ask that Warren, or set it on every machine (docs/cluster.md).`,
    { retry: { should: false } },
  )

export const isMigrating = ({ kind, id }: Owned): AppError =>
  new AppError('unavailable', `The ${nouns[kind]} ${id} is moving to another node; try again in a moment.`, {
    retry: { should: true, afterSeconds: retryMigratedAfterSeconds },
  })
