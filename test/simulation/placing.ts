/** How a create finds its node in a cluster: the server's own Placer at the door, and a wire on which answers are lost. */
import type { Forwarder, SendOutcome, SentBody } from '../../src/core/cluster/forwarder.ts'
import { Placer } from '../../src/core/cluster/placer.ts'
import type { Sandbox } from '../../src/core/sandbox/row/sandbox.ts'
import type { CreateRequest } from '../../src/core/sandbox/verbs/creator.ts'
import { AppError } from '../../src/lib/app-error.ts'
import { type Door, reach } from './hops.ts'
import type { Asked } from './reported.ts'

type Claim = { key: string; requestHash: string }

/** A create on its way: at its door, or at the node that it was sent to. */
type PlacedCreate = {
  asked: Asked
  create: CreateRequest
  claim: Claim | undefined
  /** What the peer that passed it on sent with it; undefined at the door. */
  request: SentBody | undefined
  /** The answer of the node that it was sent to. */
  answer?: { sandbox: Sandbox } | { error: unknown }
  isFull?: boolean
}

/** Creates the sandbox on the node that the door chooses. */
export async function createPlaced(
  asked: Asked,
  create: CreateRequest,
  claim: Claim | undefined,
): Promise<Sandbox> {
  const { simulation, core, ask } = asked
  const door = { node: simulation.nodes[ask.node]!, core }
  ask.isPlaced = true
  return carryOut(door, { asked, create, claim, request: undefined })
}

/** As src/api does at the door, and at the node that was chosen. */
async function carryOut({ node, core }: Door, exchange: PlacedCreate): Promise<Sandbox> {
  const { asked, create, claim } = exchange
  const placer = new Placer({
    catalog: core.catalog,
    admission: core.admission,
    membership: core.membership!,
    owners: core.claims,
    forwarder: forwarderOf({ node, core }),
    reachability: { troubleOf: () => undefined },
    clock: node.clock!,
  })
  const placed = {
    template: create.template,
    volumeNames: create.volumeMounts?.map(({ name }) => name) ?? [],
    metadata: create.metadata,
    idempotencyKey: claim?.key,
    body: () => Buffer.alloc(0),
  }
  const { attemptKey, isAnswered, earlier } = await placer.placeCreate(asked.team, placed, exchange)
  if (isAnswered) return answerIn(exchange)
  const key = claim?.key ?? attemptKey
  const own = key === undefined ? undefined : { key, attemptKey, requestHash: claim?.requestHash ?? 'same' }
  return earlier ? core.service.createdBy(earlier, own) : core.service.create(asked.team, create, own)
}

function answerIn({ answer, isFull }: PlacedCreate): Sandbox {
  if (isFull) throw new AppError('unavailable', 'There is no room.')
  if (answer && 'sandbox' in answer) return answer.sandbox
  throw answer?.error
}

const unused = () => {
  throw new AppError('internal', 'Only creates are placed in the simulation.')
}

function forwarderOf(door: Door): Forwarder<PlacedCreate> {
  return {
    isFromPeer: (request) => request !== undefined,
    capacityNeeded: (request) => (request as SentBody).needs,
    attemptIDOf: (request) => (request as SentBody).attemptID,
    refuseForCapacity(exchange) {
      exchange.isFull = true
    },
    reportMade: () => {},
    send: (nodeID, exchange, sent) => send(door, nodeID, exchange, sent),
    forward: unused,
    takeOver: unused,
    whyMissing: unused,
    refuseAsMisdirected: unused,
  }
}

/** The other node carries the request out whether its answer arrives or not. */
async function send(
  door: Door,
  nodeID: string,
  exchange: PlacedCreate,
  sent: SentBody,
): Promise<SendOutcome> {
  const { simulation, ask } = exchange.asked
  const fault = simulation.faults.policy.faultOf('peers', 'send', door.node.process)
  const peer =
    fault === 'fails' ? undefined : await reach(simulation, door.node, nodeID).catch(() => undefined)
  if (!peer) return 'not reached'
  simulation.note(() => `#${ask.number} is sent to ${nodeID}`)
  ask.node = simulation.nodes.indexOf(peer.node)
  ask.passedOnTo = peer.node.process
  const there: PlacedCreate = { ...exchange, asked: { ...exchange.asked, core: peer.core }, request: sent }
  const answer = carryOut(peer, there).then(
    (sandbox) => ({ sandbox }),
    (error: unknown) => ({ error }),
  )
  const lost = new Promise<undefined>((resolve) => {
    ask.onCut = () => resolve(undefined)
  })
  const died = peer.node.died.then(() => undefined)
  const isLost = fault === 'answer-lost' ? simulation.calls.park(door.node.process, 1000) : undefined
  const heard = await Promise.race([answer, lost, died, ...(isLost ? [isLost.then(() => undefined)] : [])])
  ask.node = simulation.nodes.indexOf(door.node)
  if (heard === undefined || simulation.areCutOff(door.node, peer.node)) {
    simulation.note(() => `#${ask.number}: the answer of ${nodeID} is lost`)
    return 'lost'
  }
  if (there.isFull) return 'no room'
  ask.node = simulation.nodes.indexOf(peer.node)
  exchange.answer = heard
  return 'answered'
}
