/** Chooses the node for a new sandbox on the node that got the request, and passes the request on to it. */
import { AppError } from '../../lib/app-error.ts'
import { randomBelow } from '../../lib/ids.ts'
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
import { hasGpusFor, type PlacementDemand, rankNodes, type SentDemand } from './rank-nodes.ts'

/** Number of nodes to ask for capacity before the request waits for capacity on the best one. */
const mostAsked = 3

export type PlacerParts<Exchange extends DoorExchange> = {
  membership: Membership
  owners: OwnerStore
  forwarder: Forwarder<Exchange>
  catalog: TemplateCatalog
  admission: Pick<Admission, 'hasRoomFor'>
}

export type PlacedRequest = {
  template: string
  volumeNames: readonly string[]
  metadata: Readonly<Record<string, string>>
  idempotencyKey: string | undefined
  /** Makes the request body for the other node. */
  body: () => Buffer
}

export class Placer<Exchange extends DoorExchange> {
  readonly #parts: PlacerParts<Exchange>
  /** CPU and memory of the requests that were sent to each node since the list of nodes was read. */
  #sent = new Map<string, SentDemand>()
  #seen: readonly ClusterNode[] = []

  constructor(parts: PlacerParts<Exchange>) {
    this.#parts = parts
  }

  /** Returns false if the sandbox must be created here, and true if the request has been answered. */
  async place(team: Team, wanted: PlacedRequest, exchange: Exchange): Promise<boolean> {
    const { forwarder } = this.#parts
    if (!forwarder.isFromPeer(exchange.request)) return this.#choose(team, wanted, exchange)
    const needs = forwarder.roomNeeded(exchange.request)
    if (!needs || (await this.#parts.admission.hasRoomFor(needs))) return false
    forwarder.refuseForRoom(exchange)
    return true
  }

  async #choose(team: Team, wanted: PlacedRequest, exchange: Exchange): Promise<boolean> {
    const { owners, membership } = this.#parts
    const { idempotencyKey } = wanted
    const earlier =
      idempotencyKey === undefined ? undefined : await owners.nodeOfClaim(team.teamID, idempotencyKey)
    const bound = earlier ?? (await this.#nodeOfVolumes(team, wanted.volumeNames))
    if (bound !== undefined) return this.#sendTo(bound, wanted, exchange)
    const template = await this.#template(team, wanted.template)
    // An error in the request is reported by this node.
    if (!template) return false
    const { tag } = parseTemplateReference(wanted.template)
    const build = await owners.locateBuild(template.templateID, tag)
    if (!build) {
      const unfinished = await owners.ownerOf({ kind: 'template', id: template.templateID })
      return unfinished ? this.#sendTo(unfinished.nodeID, wanted, exchange) : false
    }
    const nodes = await membership.nodes()
    const demand = demandOf(template, build, wanted.metadata)
    const ranked = rankNodes(nodes, demand, (nodeID) => this.#sentTo(nodes, nodeID), randomBelow)
    if (ranked.length === 0) throw noNode(demand, nodes)
    for (const { node, hasRoom } of ranked.slice(0, mostAsked)) {
      if (!hasRoom) break
      const outcome = await this.#try(node.nodeID, demand, wanted, exchange)
      if (outcome !== 'no room') return outcome === 'answered'
    }
    return this.#sendTo(ranked[0]!.node.nodeID, wanted, exchange)
  }

  async #try(
    nodeID: string,
    demand: PlacementDemand,
    wanted: PlacedRequest,
    exchange: Exchange,
  ): Promise<'here' | 'answered' | 'no room'> {
    const { membership, forwarder, admission } = this.#parts
    this.#note(nodeID, demand)
    if (nodeID === membership.nodeID) return (await admission.hasRoomFor(demand)) ? 'here' : 'no room'
    return forwarder.send(nodeID, exchange, { body: wanted.body(), needs: demand })
  }

  /** Sends the request to this node only, which lets it wait for capacity. */
  async #sendTo(nodeID: string, wanted: PlacedRequest, exchange: Exchange): Promise<boolean> {
    const { membership, forwarder } = this.#parts
    if (nodeID === membership.nodeID) return false
    const outcome = await forwarder.send(nodeID, exchange, { body: wanted.body(), needs: undefined })
    if (outcome === 'answered') return true
    throw new AppError(
      'unavailable',
      `Node ${nodeID}, which has the volumes or the template of the sandbox, is away.`,
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

  #sentTo(nodes: readonly ClusterNode[], nodeID: string): SentDemand {
    if (this.#seen !== nodes) {
      this.#seen = nodes
      this.#sent = new Map()
    }
    return this.#sent.get(nodeID) ?? { cpuCount: 0, memoryMB: 0 }
  }

  #note(nodeID: string, { cpuCount, memoryMB, gpuCount = 0 }: SentDemand): void {
    const before = this.#sent.get(nodeID) ?? { cpuCount: 0, memoryMB: 0 }
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
