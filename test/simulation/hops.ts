/** How nodes of a history reach each other: as src/peers carries requests, but without a wire. */
import type { AskWhyUnfit, HandOver } from '../../src/core/cluster/hand-over.ts'
import { isMigrating } from '../../src/core/cluster/request-router.ts'
import { AppError } from '../../src/lib/app-error.ts'
import type { Ask } from './ledger.ts'
import type { Core, SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'

/** A node in one life of its process. */
export type Door = { node: SimulatedNode; core: Core }

/** Who answers a request for its sandbox that came in at a door. */
export async function findAnswerer(
  simulation: Simulation,
  door: Door,
  ask: Ask,
  refuseStranger: () => Promise<void>,
): Promise<Door> {
  const what = { kind: 'sandbox', id: ask.sandboxID! } as const
  const { router } = door.core
  let first = await router.route(what, { isFromPeer: false })
  if (first === 'absent') {
    await refuseStranger()
    if (await router.takeOver(what.id, { memory: true })) return door
    first = await router.route(what, { isFromPeer: false })
    if (first === 'absent') throw isMigrating(what)
  }
  if (first === 'here' || first === 'misdirected') return door
  const peer = await offer(first.nodeID)
  if (peer) return peer
  const again = await offer((await door.core.router.routeAgain(what)).nodeID)
  if (again) return again
  throw isMigrating(what)

  /** Undefined: that node is no owner. */
  async function offer(nodeID: string): Promise<Door | undefined> {
    const reached = await reach(simulation, door.node, nodeID)
    simulation.note(() => `#${ask.number} is passed on to ${nodeID}`)
    ask.node = simulation.nodes.indexOf(reached.node)
    ask.passedOnTo = reached.node.process
    const answer = await reached.core.router.route(what, { isFromPeer: true })
    return answer === 'here' ? reached : undefined
  }
}

/** Rejects where the other one is down, or nothing goes between the two. */
export async function reach(simulation: Simulation, from: SimulatedNode, nodeID: string): Promise<Door> {
  await simulation.calls.park(from.process)
  const node = simulation.nodes.find(({ name }) => name === nodeID)
  const isThere = node?.isUp && node.core && (node === from || !simulation.areCutOff(from, node))
  if (!isThere) throw new AppError('unavailable', `Node ${nodeID} did not answer; try again in a moment.`)
  return { node, core: node.core! }
}

export const askWhyUnfitFrom =
  (simulation: Simulation, from: SimulatedNode): AskWhyUnfit =>
  async ({ nodeID }, needs) => {
    const { node, core } = await reach(simulation, from, nodeID)
    const why = await core.whyUnfit({ needs })
    if (simulation.areCutOff(from, node)) await reach(simulation, from, nodeID)
    return why
  }

/** The answer may be lost though the other node does what it was asked for. */
export const handOverFrom =
  (simulation: Simulation, from: SimulatedNode): HandOver =>
  async ({ nodeID }, offered) => {
    const { node, core } = await reach(simulation, from, nodeID)
    await Promise.race([core.takeOffered(offered), node.died.then(() => reach(simulation, from, nodeID))])
    if (simulation.areCutOff(from, node)) await reach(simulation, from, nodeID)
  }
