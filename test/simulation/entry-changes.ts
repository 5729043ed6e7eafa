/** What each change of a row means for what clients were told of its sandbox, and what no change may do to that. */
import { followContent } from './expected-content.ts'
import type { LedgerEntry } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { handedOverWith } from './simulated-agent.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

export function noteChange(
  simulation: Simulation,
  before: WatchedSandbox | undefined,
  after: WatchedSandbox,
): void {
  const { ledger } = simulation
  const entry = ledger.entry(after.teamID, after.sandboxID, Number(after.metadata.node ?? 0))
  if (!before) {
    entry.madeBy = isFork(simulation, after) ? undefined : ledger.creates.get(Number(after.metadata.ask))
    const { allowInternetAccess } = after.options
    if (allowInternetAccess !== null) entry.closed = !allowInternetAccess
  }
  if (after.state === 'pausing' && before?.state === 'running')
    entry.migratesUntil = isPausedByDrain(simulation, after) ? before.endAt : undefined
  if (after.state === 'paused' && before?.state !== 'paused') forgetReportedEnds(simulation, entry)
  if (after.state === 'running') entry.migratesUntil = undefined
  followContent(simulation, before, after, entry)
  if (after.state === 'running' && before?.state === 'creating') checkHandedOver(simulation, after)
  if (after.state === 'killing' && before?.state !== 'killing') checkReportedEnds(simulation, after)
  if (after.state === 'ended' && before?.state === 'killing') checkNothingRuns(simulation, after)
}

/** The copy of a sandbox has its metadata. */
const isFork = ({ ledger, watch }: Simulation, { metadata, sandboxID }: WatchedSandbox): boolean =>
  [...ledger.underway, ...ledger.unheard].some(
    (ask) => ask.verb === 'fork' && watch.sandboxes.get(ask.sandboxID!)?.metadata.ask === metadata.ask,
  ) &&
  [...watch.sandboxes.values()].some(
    (row) => row.sandboxID !== sandboxID && row.metadata.ask === metadata.ask,
  )

/** What a drain pauses is to run on as if nothing had been. Where clocks differ, nobody knows until when. */
function forgetReportedEnds({ nodes }: Simulation, entry: LedgerEntry): void {
  const isMigrating = entry.migratesUntil !== undefined && nodes.every(({ wall }) => wall.skewMs === 0)
  if (!isMigrating) entry.reportedEnds = []
}

/** No client asked for it, and its time is not over: only a drain can have done it. */
function isPausedByDrain(simulation: Simulation, { sandboxID, endAt }: WatchedSandbox): boolean {
  const { ledger } = simulation
  const owner = simulation.ownerOf(sandboxID)
  return ledger.drained.has(owner.name) && !ledger.isAsked(sandboxID, 'pause') && owner.wall.latest() < endAt
}

/** A sandbox that runs works for the team and the request that its row was made for. */
function checkHandedOver(simulation: Simulation, row: WatchedSandbox): void {
  const { sandboxID, teamID, metadata, startedRunID } = row
  const there = simulation.inWorld(sandboxID)
  // What ran before the history began was made for no request.
  if (there?.spec.runID !== startedRunID || metadata.ask === undefined) return
  const { TEAM, ASK } = handedOverWith(there.memory) ?? {}
  if (TEAM === teamID && ASK === metadata.ask) return
  const text = `${shortID(sandboxID)} of ${teamID} (#${metadata.ask}) has the variables of ${TEAM} (#${ASK})`
  simulation.report(new Violation('own sandbox', text))
}

/** Where only the timeout can have ended it: not before the end that a client was told last. */
function checkReportedEnds(
  { ledger, report }: Simulation,
  { sandboxID, endBegan, endReason }: WatchedSandbox,
): void {
  const entry = ledger.entries.get(sandboxID)!
  const { from, now, runID } = endBegan!
  // Whether it may end so is checked where its row does.
  if (endReason === 'memory_full') return
  if (from !== 'running' || ledger.killAsked.has(sandboxID) || ledger.died.has(runID)) return
  if (ledger.isAsked(sandboxID, 'set-timeout')) return
  for (const { endAt, askedAtStep } of entry.reportedEnds) {
    if (now >= endAt || entry.shortenedAtStep >= askedAtStep) continue
    const text = `${shortID(sandboxID)} ends ${endAt - now} ms before the end a client was told`
    report(new Violation('lifetime', text))
  }
}

/** What has ended by its row has no processes any more, unless its node was forgotten while it lived. */
function checkNothingRuns(simulation: Simulation, { sandboxID, endReason, nodeID }: WatchedSandbox): void {
  if (!simulation.inWorld(sandboxID)?.running || simulation.forgotten.has(nodeID)) return
  if (simulation.ownerOf(sandboxID).oldCopies.has(sandboxID)) return
  simulation.report(new Violation('no orphan', `${shortID(sandboxID)} has ended (${endReason}), and runs on`))
}

/** The first step of an end records its reason. */
export function noteCall(
  { ledger, step }: Simulation,
  name: string,
  method: string,
  args: readonly unknown[],
): void {
  if (name !== 'sandboxes' || method !== 'transition' || args[1] !== 'killing') return
  const { runID } = args[0] as { runID: string }
  if (!ledger.endDecided.has(runID)) ledger.endDecided.set(runID, step)
}

/** The driver had told the process that is there how it died before that decided to end it. */
export function wasExitReported(simulation: Simulation, runID: string, sandboxID: string): boolean {
  const { reportedExits, endDecided } = simulation.ledger
  const reported = reportedExits.get(runID)
  const decidedAt = endDecided.get(runID) ?? 0
  return (
    reported !== undefined &&
    reported.process === simulation.ownerOf(sandboxID).process &&
    reported.step < decidedAt
  )
}

/** Somebody who may asks for it, or its node is being emptied; and no volume ties it to its node. */
export function mayMigrate({ ledger, faults, report }: Simulation, row: WatchedSandbox): void {
  const { sandboxID, teamID, options } = row
  if (options.volumeMounts?.length)
    report(new Violation('volume needed', `${shortID(sandboxID)} leaves the node that has its volume`))
  const isAsked = [...ledger.underway, ...ledger.unheard].some(
    (ask) => ask.sandboxID === sandboxID && ask.teamID === teamID,
  )
  if (isAsked || ledger.drained.size > 0 || !faults.areOn) return
  report(new Violation('stranger', `${shortID(sandboxID)} changed its node, and nobody of its team asked`))
}
