/** What must hold once everything has come to rest. */

import { egressPolicy } from '../../src/core/network-policy/egress-policy.ts'
import { buildKey } from '../../src/core/object-storage/keys.ts'
import type { AddressRules } from '../../src/core/ports/egress.ts'
import type { LedgerEntry } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { writtenKey } from './simulated-agent.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { type Rule, Violation } from './violation.ts'

/** How long an end may be overdue: the longest sleep of the expiry timer. */
export const overdueMs = 61_000

export async function checkAtRest(simulation: Simulation): Promise<void> {
  const { watch, nodes, ledger } = simulation
  const say = (rule: Rule, text: string) => simulation.report(new Violation(rule, text))
  if (ledger.underway.size > 0) say('rest', `${ledger.underway.size} requests were never answered`)
  for (const row of watch.sandboxes.values()) checkRow(simulation, row, say)
  for (const node of nodes) if (!node.isGone) checkMachine(simulation, node, say)
  checkKeys(simulation, say)
  checkTemplates(simulation, say)
  watch.events.checkAtRest()
  simulation.volumes.checkAtRest()
  simulation.builds.checkAtRest()
  simulation.webhooks.checkAtRest()
}

type Say = (rule: Rule, text: string) => void

function checkRow(simulation: Simulation, row: WatchedSandbox, say: Say): void {
  const { ledger } = simulation
  const entry = ledger.entries.get(row.sandboxID)!
  const node = simulation.ownerOf(row.sandboxID)
  const name = shortID(row.sandboxID)
  const there = node.world.sandboxes.get(row.sandboxID)
  const { madeBy } = entry
  checkMigrated(simulation, row, entry, say)
  if (node.isGone && node.isForgotten && !['paused', 'ended'].includes(row.state))
    say('rest', `${name} is ${row.state} on a node that was forgotten`)
  // Nobody can tell what became of it.
  if (node.isGone) return
  if (!['running', 'paused', 'ended'].includes(row.state)) say('rest', `${name} is ${row.state} at rest`)
  if (row.state === 'running') {
    if (!there?.running || there.spec.runID !== row.startedRunID)
      say('row and reality', `${name} should run, and does not`)
    else if (there.frozen) say('row and reality', `${name} should run, and is frozen`)
    checkReportedEnd(row, entry, say)
    if (row.snapshot) say('rest', `${name} runs, and its memory has not arrived`)
    if (isOverdue(node, row)) say('overdue', `${name} should have ended at ${row.endAt}`)
    const route = node.core!.routes.get(row.sandboxID)
    if (!route) say('row and reality', `${name} runs and has no route`)
    else if (node.core!.routes.whyFrozen(route))
      say('row and reality', `${name} runs and is recorded as frozen`)
    if (there) checkEgress(name, row, entry, there.enforced, say)
    const client = there && node.gate?.clients.get(String(there.handle.data.address))
    if (there && node.gate && client?.sandboxID !== row.sandboxID)
      say(
        'egress policy',
        `${name} runs, and the gate takes its connections for those of ${client ? shortID(client.sandboxID) : 'nobody'}`,
      )
    if (there && there.files.get(writtenKey) !== entry.written && entry.written) {
      say('content kept', `${name} has ${there.files.get(writtenKey)} in its files, not ${entry.written}`)
    }
  }
  if (row.state === 'paused' && row.snapshot?.frozen && there?.running && !there.frozen) {
    say('row and reality', `${name} should be frozen, and runs`)
  }
  // With a key, a client that asks again gets the sandbox of an unknown outcome.
  const isReportedFailed =
    madeBy && ledger.failedCreates.has(madeBy.number) && madeBy.verb !== 'create with a key'
  // A door that could not ask the database says that the outcome is unknown.
  const isReportedUnknown = madeBy?.isPlaced && simulation.metOutage(madeBy)
  if (isReportedFailed && !isReportedUnknown && row.state !== 'ended') {
    say('failed create', `${name} is ${row.state}, and its client was told that it could not be made`)
  }
}

const isClosed = ({ options: { allowInternetAccess, network } }: WatchedSandbox): boolean =>
  !egressPolicy({ allowInternetAccess, network }).internet

/** Whether these address rules let nothing out. */
export const isClosedBy = (rules: AddressRules): boolean => rules.deny.includes('0.0.0.0/0')

/** What the kernel has is what the row says, also after changes that failed, and what the client was told last. */
function checkEgress(
  name: string,
  row: WatchedSandbox,
  { closed }: LedgerEntry,
  rules: AddressRules,
  say: Say,
): void {
  const is = isClosedBy(rules) ? 'closed' : 'open'
  if (isClosedBy(rules) !== isClosed(row))
    say('egress policy', `${name} is ${is}, and its row says otherwise`)
  if (closed !== undefined && isClosedBy(rules) !== closed)
    say('egress policy', `${name} is ${is}, and its client was told otherwise`)
}

/** No earlier end is written down than a client was told. */
function checkReportedEnd({ sandboxID, endAt }: WatchedSandbox, entry: LedgerEntry, say: Say): void {
  for (const reported of entry.reportedEnds) {
    if (endAt >= reported.endAt || entry.shortenedAtStep >= reported.askedAtStep) continue
    say(
      'lifetime',
      `${shortID(sandboxID)} is to end ${reported.endAt - endAt} ms before the end a client was told`,
    )
  }
}

/** What a drain paused runs again, here or elsewhere, as long as its time is not over. */
function checkMigrated(
  simulation: Simulation,
  row: WatchedSandbox,
  { migratesUntil }: LedgerEntry,
  say: Say,
) {
  const isFull = simulation.teams.some(({ limits }) => limits.maxSandboxes < 50)
  if (migratesUntil === undefined || isFull || row.state !== 'paused') return
  // Its only copy is on a machine that does not come back.
  if (simulation.ownerOf(row.sandboxID).isGone && !row.isStored) return
  const leftMs = migratesUntil - simulation.time.now()
  if (leftMs > 0)
    say('drain', `${shortID(row.sandboxID)} is paused since a drain, ${leftMs} ms before its time is over`)
}

/** Sandboxes on the machine that neither a row nor the warm pool owns. */
function* unownedOn(simulation: Simulation, node: SimulatedNode) {
  const { watch } = simulation
  for (const { spec } of node.world.sandboxes.values()) {
    const row = watch.sandboxes.get(spec.sandboxID)
    const isLive = row?.state === 'running' || (row?.state === 'paused' && row.snapshot?.frozen)
    const isOwned = isLive && simulation.isOn(node.name, row!)
    if (!isOwned && !node.core!.warm.owns(spec.sandboxID)) yield { sandboxID: spec.sandboxID, row }
  }
}

const isOverdue = (node: SimulatedNode, { state, endAt }: WatchedSandbox): boolean =>
  state === 'running' && !node.isGone && node.wall.now() > endAt + overdueMs

/** One that was reconciled at the last moment ends at the next look of the expiry timer. */
export const hasOverdue = (simulation: Simulation): boolean =>
  [...simulation.watch.sandboxes.values()].some((row) => isOverdue(simulation.ownerOf(row.sandboxID), row))

export const hasUnowned = (simulation: Simulation): boolean =>
  simulation.nodes.some((node) => !node.isGone && [...unownedOn(simulation, node)].length > 0)

/** Snapshots on the machine that no row, build or quarantine needs. */
function* unneededOn(simulation: Simulation, node: SimulatedNode) {
  const { watch } = simulation
  const needed = new Set(watch.neededSnapshots(node.name, (row) => simulation.isOn(node.name, row)))
  for (const name of node.world.snapshots.keys()) if (!needed.has(name)) yield name
}

/** What a late pause or take-over leaves is removed by a round after it. */
export const hasUnneeded = (simulation: Simulation): boolean =>
  simulation.nodes.some((node) => !node.isGone && [...unneededOn(simulation, node)].length > 0)

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
  for (const { sandboxID, runID } of node.core!.routes.values()) {
    const row = watch.sandboxes.get(sandboxID)
    if (row?.state === 'running' && row.runID === runID && simulation.isOn(node.name, row)) continue
    say('route', `${node.name} has a route to ${shortID(sandboxID)}, which is ${row?.state ?? 'not there'}`)
  }
  for (const name of unneededOn(simulation, node))
    say('no orphan', `the snapshot ${shortID(name)} belongs to nothing`)
  for (const [name, { nodeID, isDiscarded }] of watch.quarantined) {
    if (nodeID !== node.name) continue
    if (isDiscarded) say('no orphan', `${node.name} was to remove the snapshot ${shortID(name)}, and has not`)
    else if (!node.world.snapshots.has(name))
      say('row and reality', `the quarantine lists the snapshot ${shortID(name)}, which is not there`)
    else if (watch.isBuilt(name))
      say('snapshot needed', `the quarantine is to delete the snapshot ${shortID(name)}, which a build has`)
  }
}

/** Every build that clients may start from has its snapshot, on the disk of its node or in the object store. */
function checkTemplates({ watch, nodes, packs }: Simulation, say: Say): void {
  for (const [buildID, { snapshotName, nodeID }] of watch.readyBuilds) {
    const node = nodes.find(({ name }) => name === nodeID)
    if (!node || node.world.snapshots.has(snapshotName) || packs.hasPack(buildKey(snapshotName))) continue
    say('snapshot needed', `the snapshot of the template build ${shortID(buildID)} is not there`)
  }
}

function checkKeys({ watch, ledger }: Simulation, say: Say): void {
  const made = new Map<string, string>()
  const created = new Map<number, string>()
  for (const { sandboxID, teamID, metadata, endReason, state } of watch.sandboxes.values()) {
    const { madeBy } = ledger.entries.get(sandboxID)!
    if (madeBy && state !== 'ended') {
      const other = created.get(madeBy.number)
      if (other) say('idempotency', `#${madeBy.number} made ${shortID(other)} and ${shortID(sandboxID)}`)
      created.set(madeBy.number, sandboxID)
    }
    if (!metadata.key || !madeBy || endReason === 'create_failed') continue
    const key = `${teamID} ${metadata.key}`
    const other = made.get(key)
    if (other) say('idempotency', `${key} made ${shortID(other)} and ${shortID(sandboxID)}`)
    made.set(key, sandboxID)
  }
}
