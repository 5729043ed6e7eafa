/** Chooses the node for a new sandbox on the node that got the request, and passes the request on to it. */
import { AppError, isAppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID, randomBelow } from '../../lib/ids.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { Admission } from '../sandbox/capacity/admission.ts'
import type { EarlierRequest } from '../sandbox/row/sandbox-store.ts'
import type { Team } from '../team/team.ts'
import { isUsableBy, type TemplateCatalog } from '../template/catalog.ts'
import { wantedGpus } from '../template/gpu-count.ts'
import { parseTemplateReference } from '../template/reference.ts'
import type { Template } from '../template/template.ts'
import type { DoorExchange, Forwarder } from './forwarder.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isUnreachable } from './node.ts'
import type { LocatedBuild, OwnerStore } from './owner-store.ts'
import {
  hasGpusFor,
  type PlacementDemand,
  type RankedNode,
  rankNodes,
  type SentDemand,
} from './rank-nodes.ts'
import type { Reachability } from './reachability.ts'

/** Number of nodes to ask for capacity before the request waits for capacity on the best one. */
const maxAsked = 3
/** Number of nodes that may fail to answer before the client gets an error. */
const maxFailed = 5

type PlacerParts<Exchange extends DoorExchange> = {
  membership: Membership
  owners: OwnerStore
  forwarder: Forwarder<Exchange>
  catalog: TemplateCatalog
  admission: Pick<Admission, 'hasCapacityFor'>
  reachability: Pick<Reachability, 'troubleOf'>
  clock: Clock
}

export type PlacedRequest = {
  template: string
  volumeNames: readonly string[]
  metadata: Readonly<Record<string, string>>
  idempotencyKey: string | undefined
  /** Makes the request body for the other node. */
  body: () => Buffer
}

/**
 * If it is not answered, this node must create the sandbox: with `attemptKey` for a peer, which gives up the attempt if the answer
 * does not arrive. `earlier`: another node has created the sandbox, and its answer was lost.
 */
type Placement = {
  isAnswered: boolean
  attemptKey?: string | undefined
  earlier?: EarlierRequest
}

const answered: Placement = { isAnswered: true }
const nothingSent: SentDemand = { cpuCount: 0, memoryMB: 0 }

/** One create, and the nodes that failed to carry it out. */
type Attempts<Exchange> = { teamID: string; wanted: PlacedRequest; exchange: Exchange; failed: Set<string> }

export class Placer<Exchange extends DoorExchange> {
  readonly #parts: PlacerParts<Exchange>
  /** CPU and memory of the requests that were sent to each node since the list of nodes was read. */
  #sent = new Map<string, SentDemand>()
  #seen: readonly ClusterNode[] = []

  constructor(parts: PlacerParts<Exchange>) {
    this.#parts = parts
  }

  /** Sends the request to another node, or tells that the sandbox must be created here. */
  async placeCreate(team: Team, wanted: PlacedRequest, exchange: Exchange): Promise<Placement> {
    const { forwarder } = this.#parts
    if (!forwarder.isFromPeer(exchange.request)) return this.#choose(team, wanted, exchange)
    const needs = forwarder.capacityNeeded(exchange.request)
    if (!needs || (await this.#parts.admission.hasCapacityFor(needs))) {
      const attemptID = forwarder.attemptIDOf(exchange.request)
      return { isAnswered: false, attemptKey: attemptID && attemptKeyOf(attemptID) }
    }
    forwarder.refuseForCapacity(exchange)
    return answered
  }

  async #choose(team: Team, wanted: PlacedRequest, exchange: Exchange): Promise<Placement> {
    const { owners, membership } = this.#parts
    const { idempotencyKey } = wanted
    const earlier =
      idempotencyKey === undefined ? undefined : await owners.nodeOfClaim(team.teamID, idempotencyKey)
    // A node that was forgotten does not come back: any other node reads the outcome from the row.
    if (earlier !== undefined && (await membership.find(earlier)))
      return this.#askForOutcome(earlier, wanted, exchange)
    const bound = await this.#nodeOfVolumes(team, wanted.volumeNames)
    const attempts = { teamID: team.teamID, wanted, exchange, failed: new Set<string>() }
    if (bound !== undefined) return this.#tryOnly(bound, 'which has the volumes', attempts)
    const template = await this.#template(team, wanted.template)
    // An error in the request is reported by this node.
    if (!template) return { isAnswered: false }
    const { tag } = parseTemplateReference(wanted.template)
    const build = await owners.locateBuild(template.templateID, tag)
    if (!build) {
      const unfinished = await owners.ownerOf({ kind: 'template', id: template.templateID })
      return unfinished
        ? this.#tryOnly(unfinished.nodeID, 'which builds the template', attempts)
        : { isAnswered: false }
    }
    const nodes = await membership.nodes()
    this.#forgetReported(nodes)
    const demand = demandOf(template, build, wanted.metadata)
    const ranked = rankNodes(nodes, demand, {
      sentTo: (nodeID) => this.#sent.get(nodeID) ?? nothingSent,
      isReachable: (node) => this.#parts.reachability.troubleOf(node) === undefined,
      drawBelow: randomBelow,
    })
    const [best] = ranked
    if (!best) throw noNode(demand, nodes)
    return this.#tryInTurn(ranked, demand, attempts)
  }

  async #tryInTurn(
    ranked: Iterable<RankedNode>,
    demand: PlacementDemand,
    attempts: Attempts<Exchange>,
  ): Promise<Placement> {
    const { failed } = attempts
    let asked = 0
    for (const { node, hasCapacity } of ranked) {
      if (!hasCapacity) continue
      if (asked === maxAsked || failed.size === maxFailed) break
      const outcome = await this.#try(node.nodeID, demand, attempts)
      if (outcome === 'no room') asked++
      else if (outcome !== 'failed') return outcome
    }
    for (const { node } of ranked) {
      if (failed.has(node.nodeID)) continue
      if (failed.size === maxFailed) break
      const outcome = await this.#try(node.nodeID, undefined, attempts)
      if (outcome !== 'failed' && outcome !== 'no room') return outcome
    }
    throw noneReached(failed)
  }

  /** For a create that no other node can carry out. `why` describes the node. */
  async #tryOnly(nodeID: string, why: string, attempts: Attempts<Exchange>): Promise<Placement> {
    const outcome = await this.#try(nodeID, undefined, attempts)
    if (typeof outcome === 'string') throw cannotBeReached(nodeID, why)
    return outcome
  }

  /**
   * Without `demand`, the node lets the request wait for capacity. If this returns `failed`, the node has created nothing for the
   * request and cannot do so any more, so that another node can be asked, or the client told to try again.
   */
  async #try(
    nodeID: string,
    demand: PlacementDemand | undefined,
    attempts: Attempts<Exchange>,
  ): Promise<Placement | 'no room' | 'failed'> {
    const { membership, forwarder, admission } = this.#parts
    const { wanted, exchange, failed } = attempts
    if (demand) this.#note(nodeID, demand)
    if (nodeID === membership.nodeID)
      return demand && !(await admission.hasCapacityFor(demand)) ? 'no room' : { isAnswered: false }
    const attemptID = newUUID()
    const outcome = await forwarder.send(nodeID, exchange, { body: wanted.body(), needs: demand, attemptID })
    if (outcome === 'answered') return answered
    if (outcome === 'no room') return 'no room'
    failed.add(nodeID)
    if (outcome === 'not reached') return 'failed'
    const earlier = await this.#giveUp(nodeID, attemptKeyOf(attemptID), attempts)
    return earlier ? { isAnswered: false, earlier } : 'failed'
  }

  /** Returns the request whose sandbox exists although the answer of the node was lost. */
  async #giveUp(
    nodeID: string,
    attemptKey: string,
    { teamID, wanted: { idempotencyKey } }: Attempts<Exchange>,
  ): Promise<EarlierRequest | undefined> {
    const { owners, clock } = this.#parts
    const key = idempotencyKey ?? attemptKey
    const lost = { teamID, key, attemptKey, nodeID, at: clock.now() }
    try {
      return await retryPassing(clock, () => owners.giveUpCreate(lost))
    } catch (cause) {
      if (!isAppError(cause, 'unavailable')) throw cause
      throw maybeCreated(nodeID, idempotencyKey !== undefined, cause)
    }
  }

  /** Sends the request to the node that got an earlier one with the same key. */
  async #askForOutcome(nodeID: string, wanted: PlacedRequest, exchange: Exchange): Promise<Placement> {
    const { membership, forwarder } = this.#parts
    if (nodeID === membership.nodeID) return { isAnswered: false }
    const outcome = await forwarder.send(nodeID, exchange, { body: wanted.body(), needs: undefined })
    if (outcome === 'answered') return answered
    throw cannotBeReached(nodeID, 'which got an earlier request with this Idempotency-Key')
  }

  async #nodeOfVolumes({ teamID }: Team, names: readonly string[]): Promise<string | undefined> {
    const [node, other] = await this.#parts.owners.nodesOfVolumes(teamID, names)
    if (other === undefined) return node
    throw new AppError(
      'conflict',
      'The volumes are on different nodes. A sandbox can mount volumes of one node only.',
    )
  }

  async #template(team: Team, text: string): Promise<Template | undefined> {
    const template = await this.#parts.catalog.findOfAny(team, text)
    return template && isUsableBy(team, template) ? template : undefined
  }

  /** A new list of nodes has reports that include what was sent before it was read. */
  #forgetReported(nodes: readonly ClusterNode[]): void {
    if (this.#seen === nodes) return
    this.#seen = nodes
    this.#sent = new Map()
  }

  #note(nodeID: string, { cpuCount, memoryMB, gpuCount = 0 }: SentDemand): void {
    const before = this.#sent.get(nodeID) ?? nothingSent
    this.#sent.set(nodeID, {
      cpuCount: before.cpuCount + cpuCount,
      memoryMB: before.memoryMB + memoryMB,
      gpuCount: (before.gpuCount ?? 0) + gpuCount,
    })
  }
}

/** Every node has its own build of the base template, so any node can start it. */
function demandOf(
  { templateID, teamID }: Template,
  build: LocatedBuild,
  metadata: PlacedRequest['metadata'],
): PlacementDemand {
  const { buildID, cpuCount, memoryMB, nodeID, isStored } = build
  const sizes = { templateID, cpuCount, memoryMB, gpuCount: wantedGpus(build, metadata) }
  if (teamID === null) return { ...sizes, builder: undefined, buildID: undefined, isBound: false }
  return { ...sizes, builder: nodeID, buildID, isBound: !isStored }
}

/** No key of a client has a colon. */
const attemptKeyOf = (attemptID: string): string => `attempt:${attemptID}`

const noneReached = (failed: ReadonlySet<string>): AppError =>
  new AppError(
    'unavailable',
    `None of the nodes that could create the sandbox can be reached now (${[...failed].join(', ')}). Try again in a moment.`,
    { retry: { should: true, afterSeconds: 1 } },
  )

/** With an idempotency key, a second request finds the sandbox of the first one. */
const maybeCreated = (nodeID: string, hasKey: boolean, cause: AppError): AppError =>
  new AppError(
    'unavailable',
    `Node ${nodeID} broke off before it answered, and the database does not tell whether it created the sandbox. ` +
      (hasKey ? 'Try again with the same Idempotency-Key.' : 'List your sandboxes before you try again.'),
    { cause, retry: { should: hasKey, afterSeconds: 1 } },
  )

const cannotBeReached = (nodeID: string, why: string): AppError =>
  new AppError(
    'unavailable',
    `Node ${nodeID}, ${why}, cannot be reached. Nothing is lost; try again when it is back.`,
    retryLater,
  )

const retryLater = { retry: { should: true, afterSeconds: 5 } }

function noNode(demand: PlacementDemand, nodes: readonly ClusterNode[]): AppError {
  const { builder, isBound, gpuCount = 0 } = demand
  if (!nodes.some((node) => hasGpusFor(node, demand))) {
    const message = `No machine of this cluster gives a sandbox ${gpuCount} GPUs. The operator turns them on with WARREN_GPUS.`
    return new AppError('invalid_argument', message)
  }
  const node = nodes.find(({ nodeID }) => nodeID === builder)
  const why = !isBound
    ? 'No node accepts new sandboxes of this template now: all nodes that could are away or draining.'
    : `The template is on node ${builder} only, which is ${node && !isUnreachable(node) ? 'draining' : 'away'}.`
  return new AppError('unavailable', `${why} Try again later, or ask the operator.`, retryLater)
}
