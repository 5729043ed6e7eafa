/** What each change of a row means for what clients were told of its sandbox, and what no change may do to that. */
import type { Ask, LedgerEntry } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { handedOverWith, writtenKey } from './simulated-agent.ts'
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
    const isItsCreate = ({ verb, number }: Ask) =>
      verb.startsWith('create') && String(number) === after.metadata.ask
    entry.madeBy = [...ledger.underway].find(isItsCreate)
    const { allowInternetAccess } = after.options
    if (allowInternetAccess !== null) entry.closed = !allowInternetAccess
  }
  if (before?.state === 'ended' && after.state === 'paused') forgetContent(entry)
  if (after.state === 'pausing' && before?.state === 'running')
    entry.movesUntil = isPausedByDrain(simulation, after) ? before.endAt : undefined
  if (after.state === 'paused' && before?.state !== 'paused') notePause(simulation, after, entry)
  if (after.state === 'resuming' && before?.state === 'paused') {
    entry.before = { written: entry.written, inMemory: entry.inMemory }
    entry.resumesMemory = entry.keepsMemory ? entry.inMemory : undefined
    entry.keepsMemory = false
  }
  if (after.state === 'running') entry.movesUntil = undefined
  if (after.state === 'running' && before?.state === 'resuming') {
    // What still arrives does not replace what a program has written meanwhile.
    const arriving = after.snapshot?.arrivesFrom && entry.resumesMemory
    entry.inMemory = simulation.inWorld(after.sandboxID)?.memory.get(writtenKey) ?? arriving
    checkMovedMemory(simulation, after, entry)
  }
  const { arrivesFrom, storedFrom } = before?.snapshot ?? {}
  if (arrivesFrom && !after.snapshot?.arrivesFrom && after.state === 'running')
    checkArrived(simulation, after, entry)
  const isReturned = before?.runID !== after.runID && after.runID === (arrivesFrom ?? storedFrom)?.runID
  if (isReturned) Object.assign(entry, entry.before)
  if (after.state === 'running' && before?.state === 'creating') checkHandedOver(simulation, after)
  if (after.state === 'killing' && before?.state !== 'killing') checkToldEnds(simulation, after)
  if (after.state === 'ended' && before?.state === 'killing') checkNothingRuns(simulation, after)
}

/** It comes back from an earlier moment than the last that clients know. */
function forgetContent(entry: LedgerEntry): void {
  Object.assign(entry, { written: undefined, inMemory: undefined, toldEnds: [] })
}

function notePause({ ledger, nodes }: Simulation, paused: WatchedSandbox, entry: LedgerEntry): void {
  // What a drain pauses is to run on as if nothing had been. Where clocks differ, nobody knows until when.
  const isMoved = entry.movesUntil !== undefined && nodes.every(({ wall }) => wall.skewMs === 0)
  if (!isMoved) entry.toldEnds = []
  // The memory of a frozen sandbox is lost with its processes, even before the row says that it is paused.
  const isLost = paused.snapshot?.frozen === true && ledger.died.has(paused.startedRunID)
  entry.keepsMemory = paused.snapshot?.memory === true && !isLost
}

/** No client asked for it, and its time is not over: only a drain can have done it. */
function isPausedByDrain(simulation: Simulation, { sandboxID, endAt }: WatchedSandbox): boolean {
  const { ledger } = simulation
  const owner = simulation.ownerOf(sandboxID)
  return ledger.drained.has(owner.name) && !ledger.isAsked(sandboxID, 'pause') && owner.wall.latest() < endAt
}

/** A sandbox that no client asked to resume continues unchanged. */
function checkMovedMemory(
  { ledger, report }: Simulation,
  { sandboxID, startedRunID }: WatchedSandbox,
  entry: LedgerEntry,
): void {
  if (ledger.isAsked(sandboxID, 'resume', 'connect', 'wake') || ledger.died.has(startedRunID)) return
  if (entry.resumesMemory === undefined || entry.inMemory === entry.resumesMemory) return
  const text = `${shortID(sandboxID)} continues with ${entry.inMemory} in its memory, not ${entry.resumesMemory}`
  report(new Violation('content kept', text))
}

/** Its row says that all its memory is there. */
function checkArrived(
  simulation: Simulation,
  { sandboxID, startedRunID }: WatchedSandbox,
  { resumesMemory, inMemory }: LedgerEntry,
): void {
  const there = simulation.inWorld(sandboxID)
  if (resumesMemory === undefined || simulation.ledger.died.has(startedRunID)) return
  const memory = there?.memory.get(writtenKey)
  if (memory === inMemory) return
  const text = `${shortID(sandboxID)} has all its memory, with ${memory} in it, not ${inMemory}`
  simulation.report(new Violation('content kept', text))
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
function checkToldEnds(
  { ledger, report }: Simulation,
  { sandboxID, endBegan, endReason }: WatchedSandbox,
): void {
  const entry = ledger.entries.get(sandboxID)!
  const { from, now, runID } = endBegan!
  // Whether it may end so is checked where its row does.
  if (endReason === 'memory_full') return
  if (from !== 'running' || ledger.killAsked.has(sandboxID) || ledger.died.has(runID)) return
  if (ledger.isAsked(sandboxID, 'set-timeout')) return
  for (const { endAt, askedAtStep } of entry.toldEnds) {
    if (now >= endAt || entry.shortenedAtStep >= askedAtStep) continue
    const text = `${shortID(sandboxID)} ends ${endAt - now} ms before the end a client was told`
    report(new Violation('lifetime', text))
  }
}

/** What has ended by its row has no processes any more, unless the row ended because its node was forgotten. */
function checkNothingRuns(simulation: Simulation, { sandboxID, endReason }: WatchedSandbox): void {
  if (!simulation.inWorld(sandboxID)?.running) return
  simulation.report(new Violation('no orphan', `${shortID(sandboxID)} has ended (${endReason}), and runs on`))
}

/** Programs that go on after a pause write at once, whatever becomes of the resume. */
export function writeEarly(simulation: Simulation, sandboxID: string): void {
  const { plan, ledger, watch, note, step, faults } = simulation
  const there = simulation.inWorld(sandboxID)
  const entry = ledger.entries.get(sandboxID)
  if (
    !plan.writesEarly ||
    !faults.areOn ||
    !there ||
    watch.sandboxes.get(sandboxID)?.state !== 'resuming' ||
    !entry
  )
    return
  const found = there.files.get(writtenKey)
  if (entry.written !== undefined && found !== entry.written) {
    const lost = `${shortID(sandboxID)} continues with ${found} in its files, not ${entry.written}`
    simulation.report(new Violation('content kept', lost))
  }
  const text = `early write ${step}`
  note(() => `${sandboxID}: ${text}`)
  there.memory.set(writtenKey, text)
  there.files.set(writtenKey, text)
  Object.assign(entry, { written: text, inMemory: text, resumesMemory: undefined })
}

/** The first step of an end records its reason. */
export function noteCall(
  { ledger, step }: Simulation,
  name: string,
  method: string,
  args: readonly unknown[],
): void {
  if (name !== 'sandboxes' || method !== 'move' || args[1] !== 'killing') return
  const { runID } = args[0] as { runID: string }
  if (!ledger.endDecided.has(runID)) ledger.endDecided.set(runID, step)
}

/** The driver had told the process that is there how it died before that decided to end it. */
export function wasExitTold(simulation: Simulation, runID: string, sandboxID: string): boolean {
  const { toldExits, endDecided } = simulation.ledger
  const told = toldExits.get(runID)
  const decidedAt = endDecided.get(runID) ?? 0
  return told !== undefined && told.process === simulation.ownerOf(sandboxID).process && told.step < decidedAt
}

/** Somebody who may asks for it, or its node is being emptied; and no volume ties it to its node. */
export function mayMove({ ledger, faults, report }: Simulation, row: WatchedSandbox): void {
  const { sandboxID, teamID, options } = row
  if (options.volumeMounts?.length)
    report(new Violation('volume needed', `${shortID(sandboxID)} leaves the node that has its volume`))
  const isAsked = [...ledger.underway, ...ledger.unheard].some(
    (ask) => ask.sandboxID === sandboxID && ask.teamID === teamID,
  )
  if (isAsked || ledger.drained.size > 0 || !faults.areOn) return
  report(new Violation('stranger', `${shortID(sandboxID)} changed its node, and nobody of its team asked`))
}
