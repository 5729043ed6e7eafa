/** What must hold once everything has come to rest. */
import { egressPolicy } from '../../src/core/network-policy/egress-policy.ts'
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { type SimulatedNode, writtenKey } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { type Rule, Violation } from './violation.ts'

/** How long an end may be overdue: the longest sleep of the expiry timer. */
export const overdueMs = 61_000

export async function checkAtRest(simulation: Simulation): Promise<void> {
  const { watch, nodes, ledger } = simulation
  const say = (rule: Rule, text: string) => simulation.report(new Violation(rule, text))
  if (ledger.underway.size > 0) say('rest', `${ledger.underway.size} requests were never answered`)
  for (const row of watch.sandboxes.values()) checkRow(simulation, row, say)
  for (const node of nodes) checkMachine(simulation, node, say)
  checkKeys(simulation, say)
  watch.events.checkAtRest()
}

type Say = (rule: Rule, text: string) => void

function checkRow(simulation: Simulation, row: WatchedSandbox, say: Say): void {
  const { ledger } = simulation
  const entry = ledger.entries.get(row.sandboxID)!
  const node = simulation.ownerOf(row.sandboxID)
  const name = shortID(row.sandboxID)
  const there = node.world.sandboxes.get(row.sandboxID)
  const { madeBy } = entry
  if (!['running', 'paused', 'ended'].includes(row.state)) say('rest', `${name} is ${row.state} at rest`)
  if (row.state === 'running') {
    if (!there?.running || there.spec.runID !== row.startedRunID)
      say('row and reality', `${name} should run, and does not`)
    else if (there.frozen) say('row and reality', `${name} should run, and stands still`)
    if (isOverdue(node, row)) say('overdue', `${name} should have ended at ${row.endAt}`)
    if (!node.core!.routes.get(row.sandboxID)) say('row and reality', `${name} runs and has no route`)
    if (there && entry.closed !== undefined) checkEgress(name, entry.closed, there.spec.egress, say)
    if (there && there.files.get(writtenKey) !== entry.written && entry.written) {
      say('content kept', `${name} has ${there.files.get(writtenKey)} in its files, not ${entry.written}`)
    }
  }
  if (row.state === 'paused' && row.snapshot?.frozen && there?.running && !there.frozen) {
    say('row and reality', `${name} should stand still, and runs`)
  }
  // When the store is away for long, a create cannot be taken back: its sandbox runs until its time is over.
  if (madeBy && !simulation.hadOutage && ledger.failedCreates.has(madeBy.number) && row.state !== 'ended') {
    say('failed create', `${name} is ${row.state}, and its client was told that it could not be made`)
  }
}

function checkEgress(name: string, closed: boolean, rules: unknown, say: Say): void {
  const isClosed = JSON.stringify(rules).includes('0.0.0.0/0')
  const wanted = !egressPolicy({ allowInternetAccess: !closed, network: null }).internet
  if (isClosed !== wanted)
    say('egress policy', `${name} is ${isClosed ? 'closed' : 'open'}, and its client was told otherwise`)
}

/** Sandboxes on the machine that neither a row nor the warm pool owns. */
function* unownedOn(simulation: Simulation, node: SimulatedNode) {
  const { watch } = simulation
  for (const { spec } of node.world.sandboxes.values()) {
    const row = watch.sandboxes.get(spec.sandboxID)
    const isLive = row?.state === 'running' || (row?.state === 'paused' && row.snapshot?.frozen)
    const isOwned = isLive && simulation.isOn(node.name, row!)
    if (!isOwned && !node.core!.warm.holds(spec.sandboxID)) yield { sandboxID: spec.sandboxID, row }
  }
}

const isOverdue = (node: SimulatedNode, { state, endAt }: WatchedSandbox): boolean =>
  state === 'running' && node.wall.now() > endAt + overdueMs

/** One that was reconciled at the last moment ends at the next look of the expiry timer. */
export const hasOverdue = (simulation: Simulation): boolean =>
  [...simulation.watch.sandboxes.values()].some((row) => isOverdue(simulation.ownerOf(row.sandboxID), row))

export const hasUnowned = (simulation: Simulation): boolean =>
  simulation.nodes.some((node) => [...unownedOn(simulation, node)].length > 0)

function checkMachine(simulation: Simulation, node: SimulatedNode, say: Say): void {
  const { watch } = simulation
  for (const { sandboxID, row } of unownedOn(simulation, node)) {
    const isElsewhere = row && row.state !== 'ended' && !simulation.isOn(node.name, row)
    if (isElsewhere)
      say('one copy', `${shortID(sandboxID)} is on ${node.name}, and its row is ${row.nodeID}'s`)
    else
      say(
        'no orphan',
        `${shortID(sandboxID)} is on ${node.name}, and its row is ${row?.state ?? 'not there'}`,
      )
  }
  const needed = new Set(watch.neededSnapshots(node.name, (row) => simulation.isOn(node.name, row)))
  for (const name of node.world.snapshots.keys()) {
    if (!needed.has(name)) say('no orphan', `the snapshot ${shortID(name)} belongs to nothing`)
  }
  for (const [name, { nodeID, isDiscarded }] of watch.quarantined) {
    if (nodeID !== node.name) continue
    if (isDiscarded) say('no orphan', `${node.name} was to remove the snapshot ${shortID(name)}, and has not`)
    else if (!node.world.snapshots.has(name))
      say('row and reality', `the quarantine lists the snapshot ${shortID(name)}, which is not there`)
    else if (watch.isBuilt(name))
      say('snapshot needed', `the quarantine is to delete the snapshot ${shortID(name)}, which a build has`)
  }
}

function checkKeys({ watch, ledger }: Simulation, say: Say): void {
  const made = new Map<string, string>()
  for (const { sandboxID, teamID, metadata, endReason } of watch.sandboxes.values()) {
    const { madeBy } = ledger.entries.get(sandboxID)!
    if (!metadata.key || !madeBy || endReason === 'create_failed') continue
    const key = `${teamID} ${metadata.key}`
    const other = made.get(key)
    if (other) say('idempotency', `${key} made ${shortID(other)} and ${shortID(sandboxID)}`)
    made.set(key, sandboxID)
  }
}

/** Ends what runs, then resumes what is paused one after the other: each must come back as it was told. */
export async function checkContent(simulation: Simulation, rest: () => Promise<void>): Promise<void> {
  const { watch, ledger, nodes, teams } = simulation
  // Those that stand still in memory count against the limits of the others.
  const isFrozen = ({ snapshot }: WatchedSandbox) => (snapshot?.frozen ? 0 : 1)
  const rows = [...watch.sandboxes.values()].sort((one, other) => isFrozen(one) - isFrozen(other))
  const serviceOf = (id: string) => simulation.ownerOf(id).core!.service
  const perform = async <T>(work: Promise<T>): Promise<T | Error> => {
    const outcome = work.catch((error: Error) => error)
    await rest()
    return Promise.race([outcome, Promise.resolve(new Error('it never came to an end'))])
  }
  const kill = async ({ sandboxID, teamID }: WatchedSandbox) => {
    ledger.killAsked.add(sandboxID)
    const team = teams.find((one) => one.teamID === teamID)!
    return perform(serviceOf(sandboxID).kill(team, sandboxID))
  }
  const fail = (row: WatchedSandbox, text: string) =>
    simulation.report(new Violation('content kept', `${shortID(row.sandboxID)} ${text}`))
  for (const row of rows) {
    if (watch.sandboxes.get(row.sandboxID)!.state === 'running') await kill(row)
  }
  for (const row of rows) {
    if (watch.sandboxes.get(row.sandboxID)!.state !== 'paused') continue
    const entry = ledger.entries.get(row.sandboxID)!
    const { keepsMemory, inMemory } = entry
    const isUnresponsive = row.snapshot?.agentUnresponsive === true
    const team = teams.find(({ teamID }) => teamID === row.teamID)!
    const wish = { timeoutMs: 600_000, memory: !isUnresponsive }
    if (row.isArchived) {
      const owner = simulation.ownerOf(row.sandboxID)
      const other = nodes[(nodes.indexOf(owner) + 1) % nodes.length]!
      const options = { memory: true, from: owner.name }
      const taken = await perform(other.core!.archive!.mover.take(row.sandboxID, options))
      if (taken !== true) return fail(row, `cannot be taken over: ${taken}`)
    }
    const answer = await perform(serviceOf(row.sandboxID).connect(team, row.sandboxID, wish))
    if (answer instanceof Error) return fail(row, `is paused and cannot be resumed: ${answer.message}`)
    const there = simulation.inWorld(row.sandboxID)
    if (there?.files.get(writtenKey) !== entry.written && entry.written) {
      return fail(row, `came back with ${there?.files.get(writtenKey)} in its files, not ${entry.written}`)
    }
    if (keepsMemory && inMemory && !isUnresponsive && there?.memory.get(writtenKey) !== inMemory) {
      return fail(row, `came back with ${there?.memory.get(writtenKey)} in its memory, not ${inMemory}`)
    }
    await kill(row)
  }
  await rest()
}
