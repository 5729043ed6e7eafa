/**
 * What clients may expect in the memory and the files of a sandbox: what its programs wrote, through every pause, move, drain and
 * failed resume. A row never lowers the expectation; only what clients asked for and the faults of the history do.
 */
import { sandboxKey } from '../../src/core/object-storage/keys.ts'
import type { Ask, LedgerEntry } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { writtenKey } from './simulated-agent.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

/** A resume that has begun, with what the sandbox had before. */
export type BegunResume = {
  written: string | undefined
  inMemory: string | undefined
  /** The pause kept the memory. */
  keepsMemory: boolean
  /** The object store has the snapshot, and the row has said so. */
  isStored: boolean
  /** A client may have asked to boot from the files alone. */
  mayDropMemory: boolean
  /** Its programs went on, so that the copy on the disk is used up. */
  hasStarted: boolean
  /** The sandbox stood still in the memory of its machine. */
  wasFrozen: boolean
}

/** Follows the content through one change of the row. */
export function followContent(
  simulation: Simulation,
  before: WatchedSandbox | undefined,
  after: WatchedSandbox,
  entry: LedgerEntry,
): void {
  const transition = `${before?.state} ${after.state}`
  if (after.isStored) simulation.ledger.remoteRuns.add(sandboxKey(after))
  if (transition === 'creating running') adoptContent(simulation, after, entry)
  if (transition === 'ended paused') forgetContent(entry)
  if (transition === 'running pausing') {
    entry.pauseDropsMemory = asksFor(simulation, after, 'pause').some(({ memory }) => !memory)
    if (before?.snapshot?.arrivesFrom) noteUnexpected(simulation, after, entry)
  }
  if (transition === 'pausing paused') notePaused(simulation, before!, entry)
  if (transition === 'paused resuming') entry.resume = begunResume(simulation, before!, entry)
  if (transition === 'resuming running') noteRunning(simulation, after, entry)
  const arrivedFrom = before?.snapshot?.arrivesFrom
  const isBack = arrivedFrom !== undefined && after.runID === arrivedFrom.runID
  if (isBack || transition === 'resuming paused')
    goBack(entry, { isReturned: isBack, isDead: simulation.ledger.died.has(before!.startedRunID) })
  else if (arrivedFrom && !after.snapshot?.arrivesFrom && after.state === 'running')
    checkArrived(simulation, after, entry)
  if (after.state === 'paused') checkPausedRow(simulation, after, entry)
}

/** It begins with what its template or the sandbox that it is a copy of had. */
function adoptContent(simulation: Simulation, { sandboxID }: WatchedSandbox, entry: LedgerEntry): void {
  const there = simulation.inWorld(sandboxID)
  entry.written ??= there?.files.get(writtenKey)
  entry.inMemory ??= there?.memory.get(writtenKey)
  entry.isContentUnknown = false
}

/** It comes back from an earlier moment than the last that clients know. */
function forgetContent(entry: LedgerEntry): void {
  Object.assign(entry, { written: undefined, inMemory: undefined, keepsMemory: false, reportedEnds: [] })
  entry.isContentUnknown = true
}

function notePaused({ ledger, plan }: Simulation, { startedRunID }: WatchedSandbox, entry: LedgerEntry) {
  // The memory of a frozen sandbox is lost with its processes, even before the row says that it is paused.
  const isFrozen = !plan.snapshotMemory && plan.arrivalMs === undefined
  const isLost = isFrozen && ledger.died.has(startedRunID)
  entry.keepsMemory = !entry.pauseDropsMemory && !isLost
}

function begunResume(simulation: Simulation, before: WatchedSandbox, entry: LedgerEntry): BegunResume {
  const { packs, ledger } = simulation
  const key = sandboxKey(before)
  const { written, inMemory, keepsMemory } = entry
  return {
    written,
    inMemory,
    keepsMemory,
    isStored: ledger.remoteRuns.has(key) && packs.hasPack(key),
    mayDropMemory: asksFor(simulation, before, 'resume', 'connect').some(({ memory }) => !memory),
    hasStarted: false,
    wasFrozen: before.snapshot?.frozen === true,
  }
}

/** It runs again, with all that it had. */
function noteRunning(simulation: Simulation, row: WatchedSandbox, entry: LedgerEntry): void {
  if (entry.isContentUnknown) adoptContent(simulation, row, entry)
  const { resume } = entry
  const there = simulation.inWorld(row.sandboxID)
  const isDead = simulation.ledger.died.has(row.startedRunID)
  const isArriving = row.snapshot?.arrivesFrom !== undefined
  const memory = there?.memory.get(writtenKey)
  if (resume?.keepsMemory && !resume.mayDropMemory && !isArriving && !isDead && memory !== entry.inMemory)
    report(simulation, row, `continues with ${memory} in its memory, not ${entry.inMemory}`)
  const files = there?.files.get(writtenKey)
  if (there && !isDead && files !== entry.written)
    report(simulation, row, `continues with ${files} in its files, not ${entry.written}`)
  // What still arrives does not replace what a program has written meanwhile.
  const arriving = isArriving && resume?.keepsMemory ? entry.inMemory : undefined
  entry.inMemory = memory ?? arriving
  entry.keepsMemory = false
}

/** The resume failed, or the sandbox was gone before its memory had arrived: it has again what it had before. */
function goBack(entry: LedgerEntry, { isReturned, isDead }: { isReturned: boolean; isDead: boolean }): void {
  const { resume } = entry
  if (!resume) return
  const { written, inMemory, isStored, hasStarted, mayDropMemory, wasFrozen } = resume
  // The files on the disk go on from where the failed resume left them, and its memory does not fit them any more.
  const isUsedUp = hasStarted && !isStored && !isReturned
  if (!isUsedUp) Object.assign(entry, { written, inMemory })
  // To boot a frozen sandbox from its files, it is ended first.
  const isEnded = wasFrozen && (mayDropMemory || isDead)
  entry.keepsMemory = resume.keepsMemory && !isUsedUp && !isEnded
}

/** All its memory is said to be there. */
function checkArrived(simulation: Simulation, row: WatchedSandbox, entry: LedgerEntry): void {
  noteUnexpected(simulation, row, entry)
  const { resume, inMemory } = entry
  const memory = simulation.inWorld(row.sandboxID)?.memory.get(writtenKey)
  if (resume?.keepsMemory && !simulation.ledger.died.has(row.startedRunID) && memory !== inMemory)
    report(simulation, row, `has all its memory, with ${memory} in it, not ${inMemory}`)
}

/** A pause that might have been without memory kept it after all, and it has arrived. */
function noteUnexpected(simulation: Simulation, row: WatchedSandbox, entry: LedgerEntry): void {
  if (!entry.resume?.keepsMemory) entry.inMemory ??= simulation.inWorld(row.sandboxID)?.memory.get(writtenKey)
}

/** A row that forgets the memory makes everybody forget it. */
function checkPausedRow(simulation: Simulation, row: WatchedSandbox, entry: LedgerEntry): void {
  if (!entry.keepsMemory || row.snapshot?.memory !== false) return
  // A client's pause of what a drain has paused lets it stay paused as the client wants it.
  if (asksFor(simulation, row, 'pause').some(({ memory }) => !memory)) {
    entry.keepsMemory = false
    return
  }
  report(simulation, row, 'is paused without memory by its row, and nobody asked for that')
}

/** Requests for this sandbox that may take effect now. */
const asksFor = (
  { ledger }: Simulation,
  { sandboxID }: WatchedSandbox,
  ...verbs: Ask['verb'][]
): readonly Ask[] =>
  [...ledger.underway, ...ledger.unheard].filter(
    (ask) => ask.sandboxID === sandboxID && verbs.includes(ask.verb),
  )

const report = (simulation: Simulation, { sandboxID }: WatchedSandbox, text: string): void =>
  simulation.report(new Violation('content kept', `${shortID(sandboxID)} ${text}`))

/** Programs that go on after a pause write at once, whatever becomes of the resume. */
export function writeEarly(simulation: Simulation, sandboxID: string): void {
  const { plan, ledger, watch, note, step, faults } = simulation
  const there = simulation.inWorld(sandboxID)
  const entry = ledger.entries.get(sandboxID)
  const isResuming = watch.sandboxes.get(sandboxID)?.state === 'resuming'
  if (!there || !entry || !isResuming) return
  if (entry.resume) entry.resume.hasStarted = true
  if (!plan.writesEarly || !faults.areOn) return
  const found = there.files.get(writtenKey)
  if (entry.written !== undefined && found !== entry.written) {
    const lost = `${shortID(sandboxID)} continues with ${found} in its files, not ${entry.written}`
    simulation.report(new Violation('content kept', lost))
  }
  const text = `early write ${step}`
  note(() => `${sandboxID}: ${text}`)
  there.memory.set(writtenKey, text)
  there.files.set(writtenKey, text)
  Object.assign(entry, { written: text, inMemory: text })
}
