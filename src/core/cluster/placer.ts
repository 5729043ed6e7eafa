/** Chooses the node for a new sandbox on the node that got the request, and passes the request on to it. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID, randomBelow } from '../../lib/ids.ts'
import type { Admission } from '../sandbox/capacity/admission.ts'
import type { Team } from '../team/team.ts'
import { isUsableBy, type TemplateCatalog } from '../template/catalog.ts'
import { wantedGpus } from '../template/gpu-count.ts'
import { parseTemplateReference } from '../template/reference.ts'
import type { Template } from '../template/template.ts'
import type { DoorExchange, Forwarder } from './forwarder.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isAway } from './node.ts'
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
const mostAsked = 3
/** Number of nodes that may fail to answer before the client gets an error. */
const mostFailed = 5

export type PlacerParts<Exchange extends DoorExchange> = {
  membership: Membership
  owners: OwnerStore
  forwarder: Forwarder<Exchange>
  catalog: TemplateCatalog
  admission: Pick<Admission, 'hasRoomFor'>
  reachability: Pick<Reachability, 'troubleOf'>
  clock: Pick<Clock, 'now'>
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
 * `attemptKey`: the idempotency key with which this node must create the sandbox, because another node may be
 * creating it for the same request.
 */
export type Placement = { isAnswered: boolean; attemptKey?: string | undefined }

const answered: Placement = { isAnswered: true }
const nothingSent: SentDemand = { cpuCount: 0, memoryMB: 0 }

/** The attempts to have one create carried out. */
type Attempts = { teamID: string; key: string; attemptID: string; failed: Set<string> }

export class Placer<Exchange extends DoorExchange> {
  readonly #parts: PlacerParts<Exchange>
  /** CPU and memory of the requests that were sent to each node since the list of nodes was read. */
  #sent = new Map<string, SentDemand>()
  #seen: readonly ClusterNode[] = []

  constructor(parts: PlacerParts<Exchange>) {
    this.#parts = parts
  }

  /** Sends the request to another node, or tells that the sandbox must be created here. */
  async place(team: Team, wanted: PlacedRequest, exchange: Exchange): Promise<Placement> {
    const { forwarder } = this.#parts
    if (!forwarder.isFromPeer(exchange.request)) return this.#choose(team, wanted, exchange)
    const needs = forwarder.roomNeeded(exchange.request)
    if (!needs || (await this.#parts.admission.hasRoomFor(needs))) {
      const attemptID = forwarder.attemptIDOf(exchange.request)
      return { isAnswered: false, attemptKey: attemptID && attemptKeyOf(attemptID) }
    }
    forwarder.refuseForRoom(exchange)
    return answered
  }

  async #choose(team: Team, wanted: PlacedRequest, exchange: Exchange): Promise<Placement> {
    const { owners, membership } = this.#parts
    const { idempotencyKey } = wanted
    const earlier =
      idempotencyKey === undefined ? undefined : await owners.nodeOfClaim(team.teamID, idempotencyKey)
    // A node that was forgotten does not come back: any other node reads the outcome from the row.
    if (earlier !== undefined && (await membership.find(earlier)))
      return this.#sendTo(earlier, 'which got an earlier request with this Idempotency-Key', wanted, exchange)
    const bound = await this.#nodeOfVolumes(team, wanted.volumeNames)
    if (bound !== undefined) return this.#sendTo(bound, 'which has the volumes', wanted, exchange)
    const template = await this.#template(team, wanted.template)
    // An error in the request is reported by this node.
    if (!template) return { isAnswered: false }
    const { tag } = parseTemplateReference(wanted.template)
    const build = await owners.locateBuild(template.templateID, tag)
    if (!build) {
      const unfinished = await owners.ownerOf({ kind: 'template', id: template.templateID })
      return unfinished
        ? this.#sendTo(unfinished.nodeID, 'which builds the template', wanted, exchange)
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
    return this.#tryInTurn(team, ranked, demand, wanted, exchange)
  }

  /**
   * Every attempt has the same idempotency key: the client's, or one that this node makes. If the answer of a
   * node is lost, the next node therefore creates no second sandbox.
   */
  async #tryInTurn(
    { teamID }: Team,
    ranked: Iterable<RankedNode>,
    demand: PlacementDemand,
    wanted: PlacedRequest,
    exchange: Exchange,
  ): Promise<Placement> {
    const attemptID = newUUID()
    const key = wanted.idempotencyKey ?? attemptKeyOf(attemptID)
    const attempts: Attempts = { teamID, key, attemptID, failed: new Set() }
    let asked = 0
    for (const { node, hasRoom } of ranked) {
      if (!hasRoom) continue
      if (asked === mostAsked || attempts.failed.size === mostFailed) break
      const outcome = await this.#try(node.nodeID, demand, wanted, exchange, attempts)
      if (outcome === 'no room') asked++
      else if (outcome !== 'failed') return outcome
    }
    for (const { node } of ranked) {
      if (attempts.failed.has(node.nodeID)) continue
      if (attempts.failed.size === mostFailed) break
      const outcome = await this.#try(node.nodeID, undefined, wanted, exchange, attempts)
      if (outcome !== 'failed' && outcome !== 'no room') return outcome
    }
    throw noneReached(attempts)
  }

  /** Without `demand`, the node lets the request wait for capacity. */
  async #try(
    nodeID: string,
    demand: PlacementDemand | undefined,
    wanted: PlacedRequest,
    exchange: Exchange,
    attempts: Attempts,
  ): Promise<Placement | 'no room' | 'failed'> {
    const { membership, forwarder, admission, owners, clock } = this.#parts
    const { teamID, key, attemptID, failed } = attempts
    if (demand) this.#note(nodeID, demand)
    if (nodeID === membership.nodeID) {
      if (demand && !(await admission.hasRoomFor(demand))) return 'no room'
      return { isAnswered: false, attemptKey: failed.size > 0 ? key : undefined }
    }
    const sent = { body: wanted.body(), needs: demand, attemptID }
    const outcome = await forwarder.send(nodeID, exchange, sent)
    if (outcome === 'answered') return answered
    if (outcome === 'no room') return 'no room'
    failed.add(nodeID)
    if (outcome === 'lost') await owners.giveUpCreate({ teamID, key, nodeID, at: clock.now() })
    return 'failed'
  }

  /** Sends the request to this node only, which lets it wait for capacity. `why` describes the node. */
  async #sendTo(nodeID: string, why: string, wanted: PlacedRequest, exchange: Exchange): Promise<Placement> {
    const { membership, forwarder } = this.#parts
    if (nodeID === membership.nodeID) return { isAnswered: false }
    const outcome = await forwarder.send(nodeID, exchange, { body: wanted.body(), needs: undefined })
    if (outcome === 'answered') return answered
    throw new AppError(
      'unavailable',
      `Node ${nodeID}, ${why}, cannot be reached. Nothing is lost; try again when it is back.`,
      retryLater,
    )
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

const noneReached = ({ failed }: Attempts): AppError =>
  new AppError(
    'unavailable',
    `None of the nodes that could create the sandbox can be reached now (${[...failed].join(', ')}). Try again in a moment.`,
    { retry: { should: true, afterSeconds: 1 } },
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
    : `The template is on node ${builder} only, which is ${node && !isAway(node) ? 'draining' : 'away'}.`
  return new AppError('unavailable', `${why} Try again later, or ask the operator.`, retryLater)
}
