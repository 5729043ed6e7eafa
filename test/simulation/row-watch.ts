/** Checks every change of every row, by any statement, against the rules that must always hold. */
import {
  activeStates,
  legalTransitions,
  type RemoteRun,
  type SandboxOptions,
  type SandboxSnapshot,
  type SandboxState,
} from '../../src/core/sandbox/row/sandbox.ts'
import { pausedSandboxOf, pauseSnapshotName } from '../../src/core/sandbox/snapshots/snapshot-names.ts'
import type { TeamLimits } from '../../src/core/team/team.ts'
import type { Row, RowChange } from './database.ts'
import { EventWatch } from './event-watch.ts'
import { type Note, shortID } from './parked-calls.ts'
import { Violation } from './violation.ts'

export type WatchedSandbox = {
  sandboxID: string
  teamID: string
  nodeID: string
  buildID: string
  /** The object store has the snapshot of its pause. */
  isStored: boolean
  state: SandboxState
  runID: string
  /** The run in which its processes were started; a thawed sandbox continues in the run before its pause. */
  startedRunID: string
  cpuCount: number
  memoryMB: number
  metadata: Record<string, string>
  options: SandboxOptions
  snapshot: SandboxSnapshot | null
  startedAt: number
  endAt: number
  endReason: string | null
  /** How it was when its end began. */
  endBegan:
    | { from: SandboxState; runID: string; now: number; endAt: number; isAboveShare: boolean }
    | undefined
}

export type WatchParts = {
  limits: ReadonlyMap<string, TeamLimits>
  /** The latest time that the clock of the sandbox's machine told. */
  now: (sandboxID: string) => number
  wasKillAsked: (sandboxID: string) => boolean
  /** No client was told that it was made, so it may be taken back. */
  isUntold: (row: WatchedSandbox) => boolean
  /** It took more memory than its share. */
  isAboveShare: (sandboxID: string) => boolean
  /** A client's request for a pause of it is under way. */
  isPauseAsked: (sandboxID: string) => boolean
  /** The operator forgets this node at this moment. */
  isForgotten: (nodeID: string) => boolean
  /** The object store has the snapshot of this pause. */
  hasPack: (row: WatchedSandbox) => boolean
  /** A fault of the history took the processes of this run. */
  hasDied: (runID: string) => boolean
  /** The driver had told how this run died before its end was decided. */
  wasExitReported: (runID: string, sandboxID: string) => boolean
  /** The operator asks for it back from the quarantine. */
  isRecovered: (sandboxID: string) => boolean
  /** The operator asks to delete the snapshot from the quarantine. */
  isDiscarded: (snapshotName: string) => boolean
  /** Checks whether it may go to another node. */
  mayMigrate: (row: WatchedSandbox) => void
  onChange: (before: WatchedSandbox | undefined, after: WatchedSandbox) => void
  note: Note
  report: (violation: Violation) => void
}

type Judges = {
  isRunning: (sandboxID: string) => boolean
  /** It is a thaw of this sandbox that removes the snapshot. */
  isThawed: (sandboxID: string) => boolean
  isOwn: (row: WatchedSandbox) => boolean
}

export class RowWatch {
  readonly sandboxes = new Map<string, WatchedSandbox>()
  /** By table and key: the snapshot that a build, a cached step or the quarantine of a node holds. */
  readonly #snapshotHolders = new Map<string, string>()
  /** By id: builds that clients may start from, with the node that made them. */
  readonly readyBuilds = new Map<string, { snapshotName: string; nodeID: string }>()
  /** By the name of the snapshot: the node whose quarantine lists it, or that has to remove it. */
  readonly quarantined = new Map<string, { nodeID: string; isDiscarded: boolean }>()
  readonly #parts: WatchParts
  /** Called when a row goes to another node. */
  onClaimed: (row: WatchedSandbox) => void = () => {}

  /** What was told of each sandbox. */
  readonly events: EventWatch

  constructor(parts: WatchParts) {
    this.#parts = parts
    this.events = new EventWatch(parts.report)
  }

  see({ table, before, after }: RowChange): void {
    if (table === 'sandboxes') this.#seeSandbox(before, after)
    if (table === 'sandbox_events') this.#seeEvent(before, after)
    if (table === 'quarantine') this.#seeQuarantine(before, after)
    if (table === 'template_builds' || table === 'build_cache') {
      const nameOf = ({ saved_name, snapshot_name }: Row) => saved_name ?? snapshot_name
      const key = (row: Row) => `${table} ${row.id ?? `${row.team_id} ${row.key}`}`
      if (before) this.#snapshotHolders.delete(key(before))
      if (after && nameOf(after)) this.#snapshotHolders.set(key(after), String(nameOf(after)))
      if (table === 'template_builds') this.#seeBuild(before, after)
    }
  }

  #seeBuild(before: Row | undefined, after: Row | undefined): void {
    if (before) this.readyBuilds.delete(String(before.id))
    if (after?.status !== 'ready' || !after.saved_name) return
    const build = { snapshotName: String(after.saved_name), nodeID: String(after.node_id) }
    this.readyBuilds.set(String(after.id), build)
  }

  /**
   * Who would be poorer without this snapshot. A pause whose sandbox has ended has nothing else, and one whose sandbox
   * stands still has nothing else when the machine goes down.
   */
  whoNeeds(name: string, nodeName: string, { isRunning, isThawed, isOwn }: Judges): string | undefined {
    for (const row of this.sandboxes.values()) {
      const { sandboxID, state, snapshot } = row
      // The object store has it too, or it is another node's.
      const isCopy = (state === 'paused' && row.isStored) || remoteRunOf(row) !== undefined
      if (!isOwn(row) || (isCopy && state !== 'pausing')) continue
      const isGoingOn = state === 'resuming' && isThawed(sandboxID)
      const isNeeded = (state === 'paused' || (state === 'resuming' && !isGoingOn)) && snapshot?.name === name
      const isOnlyCopy = state === 'pausing' && pauseSnapshotName(row) === name && !isRunning(sandboxID)
      if (isNeeded || isOnlyCopy) return `sandbox ${shortID(sandboxID)}, which is ${state},`
    }
    for (const [holder, snapshotName] of this.#snapshotHolders)
      if (snapshotName === name) return shortID(holder)
    // A sandbox without a row keeps running until the next snapshot of it.
    const isThawing = isThawed(pausedSandboxOf(name) ?? '')
    const isQuarantined = this.#isQuarantined(name, nodeName) && !this.#parts.isDiscarded(name) && !isThawing
    // With its sandbox goes what is left of its earlier moments.
    if (this.#parts.wasKillAsked(pausedSandboxOf(name) ?? '')) return undefined
    return isQuarantined ? 'the quarantine' : undefined
  }

  *neededSnapshots(nodeName: string, isOwn: (row: WatchedSandbox) => boolean): Iterable<string> {
    for (const row of this.sandboxes.values()) {
      if (row.state === 'paused' && row.snapshot && isOwn(row)) yield row.snapshot.name
    }
    yield* this.#snapshotHolders.values()
    for (const name of this.quarantined.keys()) if (this.#isQuarantined(name, nodeName)) yield name
  }

  /** A build has the snapshot, or a step of one that was kept. */
  isBuilt(name: string): boolean {
    return [...this.#snapshotHolders.values()].includes(name)
  }

  #isQuarantined(name: string, nodeName: string): boolean {
    const entry = this.quarantined.get(name)
    return entry?.nodeID === nodeName && !entry.isDiscarded
  }

  #seeQuarantine(before: Row | undefined, after: Row | undefined): void {
    if (before) this.quarantined.delete(String(before.snapshot_name))
    if (!after) return
    // An entry with this time tells its node to remove the snapshot of a template that another node deleted.
    const isDiscarded = after.since === 0
    this.quarantined.set(String(after.snapshot_name), { nodeID: String(after.node_id), isDiscarded })
  }

  #seeSandbox(beforeRow: Row | undefined, afterRow: Row | undefined): void {
    const { report, note } = this.#parts
    const before = beforeRow && this.sandboxes.get(String(beforeRow.id))
    if (!afterRow) {
      if (before && before.state !== 'ended')
        report(new Violation('legal transitions', `the row of ${name(before)} was deleted`))
      return
    }
    const after = watched(afterRow)
    after.endBegan = after.state === 'killing' || after.state === 'ended' ? before?.endBegan : undefined
    this.sandboxes.set(after.sandboxID, after)
    if (before?.state !== after.state) {
      note(
        () =>
          `row ${shortID(after.sandboxID)}: ${before?.state ?? 'none'} → ${after.state}${after.endReason ? ` (${after.endReason})` : ''}`,
      )
    } else if (before && before.endAt !== after.endAt)
      note(() => `row ${shortID(after.sandboxID)}: ends at ${after.endAt}`)
    this.#checkTransition(before, after)
    this.events.seeSandbox(before, after)
    if (before && before.state !== after.state) this.#checkLifetime(before, after)
    this.#checkLimits(after)
    this.#parts.onChange(before, after)
  }

  #seeEvent(before: Row | undefined, after: Row | undefined): void {
    if (before || !after) {
      this.#parts.report(new Violation('events', 'an event was changed or deleted'))
      return
    }
    this.#parts.note(() => `event ${shortID(String(after.sandbox_id))}: ${after.number} ${after.type}`)
    this.events.seeEvent(after)
  }

  #checkTransition(before: WatchedSandbox | undefined, after: WatchedSandbox): void {
    const { report } = this.#parts
    if (!before) {
      if (after.state !== 'creating')
        report(new Violation('legal transitions', `${name(after)} began as ${after.state}`))
      return
    }
    const isForgotten = after.state === 'ended' && this.#parts.isForgotten(before.nodeID)
    if (isForgotten) {
      this.#checkForgotten(before, after)
      return
    }
    const isReopened = before.state === 'ended' && after.state === 'paused'
    if (isReopened && this.#parts.isRecovered(after.sandboxID)) return
    // The door of a create gives it up if the answer of its node is lost.
    const isGivenUp = before.state === 'creating' && after.endReason === 'create_failed'
    const isLegal =
      before.state === after.state || legalTransitions[before.state].includes(after.state) || isGivenUp
    if (!isLegal || before.state === 'ended') {
      report(new Violation('legal transitions', `${name(after)} went from ${before.state} to ${after.state}`))
    }
    const isClaimed = before.nodeID !== after.nodeID
    if (isClaimed) this.#parts.note(() => `row ${name(after)}: ${before.nodeID} → ${after.nodeID}`)
    if (isClaimed) this.#parts.mayMigrate(after)
    if (isClaimed) this.onClaimed(after)
    if (isClaimed && !(before.state === 'paused' && after.state === 'paused' && before.isStored)) {
      report(new Violation('one copy', `${name(after)} changed its node while ${before.state}`))
    }
    this.#checkArrival(before, after)
    if (after.isStored && !before.isStored && !this.#parts.hasPack(after)) {
      report(new Violation('pack needed', `${name(after)} is marked, and the object store does not have it`))
    }
    if (before.runID !== after.runID && after.state !== 'resuming' && !isReturned(before, after)) {
      report(new Violation('legal transitions', `${name(after)} changed its run while ${after.state}`))
    }
  }

  /** The object store has what still arrives, and a sandbox that is gone meanwhile is paused as it was. */
  #checkArrival(before: WatchedSandbox, after: WatchedSandbox): void {
    const { report, hasPack } = this.#parts
    const arrivesFrom = after.snapshot?.arrivesFrom
    if (arrivesFrom && !before.snapshot?.arrivesFrom && !hasPack({ ...after, runID: arrivesFrom.runID }))
      report(new Violation('pack needed', `${name(after)} arrives from what the object store does not have`))
    const mustReturn = ['running', 'snapshotting'].includes(before.state) && after.state === 'paused'
    if (mustReturn && !isReturned(before, after))
      report(new Violation('legal transitions', `${name(after)} was ${before.state} and is paused at once`))
  }

  /** Forgetting a node ends only sandboxes that no other node can have. */
  #checkForgotten(before: WatchedSandbox, after: WatchedSandbox): void {
    const { report } = this.#parts
    const isStored = before.state !== 'killing' && remoteRunOf(before) !== undefined
    const isBound = before.options.volumeMounts?.length
    if ((before.state === 'paused' && before.isStored) || (isStored && !isBound))
      report(new Violation('pack needed', `${name(after)} was ended, though the object store has it`))
    const reasons = { killing: before.endReason, creating: 'create_failed' } as Partial<
      Record<SandboxState, string | null>
    >
    const reason = before.state in reasons ? reasons[before.state] : 'lost'
    if (after.endReason !== reason)
      report(
        new Violation(
          'reason told',
          `${name(after)} ended with its node as ${after.endReason}, not ${reason}`,
        ),
      )
  }

  #checkLimits({ teamID, state }: WatchedSandbox): void {
    if (!activeStates.includes(state)) return
    const limits = this.#parts.limits.get(teamID)!
    const used = { maxSandboxes: 0, maxCPU: 0, maxMemoryMB: 0 }
    for (const other of this.sandboxes.values()) {
      if (other.teamID !== teamID) continue
      // A paused sandbox that ends holds no more than it did.
      const isActive = activeStates.includes(other.endBegan?.from ?? other.state) && other.state !== 'ended'
      if (isActive) used.maxSandboxes += 1
      if (isActive) used.maxCPU += other.cpuCount
      if (isActive || (other.state === 'paused' && other.snapshot?.frozen)) used.maxMemoryMB += other.memoryMB
    }
    for (const limit of ['maxSandboxes', 'maxCPU', 'maxMemoryMB'] as const) {
      if (used[limit] <= limits[limit]) continue
      this.#parts.report(
        new Violation('limits', `${teamID} uses ${used[limit]} of ${limits[limit]} (${limit})`),
      )
    }
  }

  #checkLifetime(before: WatchedSandbox, after: WatchedSandbox): void {
    const { now, report, isPauseAsked } = this.#parts
    const at = now(after.sandboxID)
    if (after.state === 'killing') {
      after.endBegan = {
        from: before.state,
        runID: before.startedRunID,
        now: at,
        endAt: before.endAt,
        isAboveShare: this.#parts.isAboveShare(before.sandboxID),
      }
    } else if (after.state === 'ended') this.#checkReason(after)
    else if (after.state === 'pausing' && !isPauseAsked(after.sandboxID)) {
      if (!before.options.autoPause) {
        report(new Violation('lifetime', `${name(after)} is paused though nobody asked for it`))
      } else if (at < before.endAt) {
        report(
          new Violation(
            'lifetime',
            `${name(after)} is paused ${before.endAt - at} ms before its time is over`,
          ),
        )
      }
    }
  }

  #checkReason(ended: WatchedSandbox): void {
    const { hasDied, report, wasKillAsked } = this.#parts
    const { endBegan: began, endReason: reason } = ended
    if (wasKillAsked(ended.sandboxID) || !began || this.#parts.isForgotten(ended.nodeID)) return
    // Its processes go before its row can be ended, and a round may find that first.
    if (reason === 'lost' && this.#parts.isUntold(ended)) return
    const from = `${name(ended)} was ${began.from}`
    if (reason === 'timeout') {
      if (began.from !== 'running')
        report(new Violation('lifetime', `${from} and ended because of its timeout`))
      else if (began.now < began.endAt) {
        report(
          new Violation(
            'lifetime',
            `${name(ended)} was ended ${began.endAt - began.now} ms before its time was over`,
          ),
        )
      }
    } else if (reason === 'create_failed') {
      if (began.from !== 'creating' && !this.#parts.isUntold(ended))
        report(new Violation('reason told', `${from} and ended as create_failed`))
    } else if (reason === 'memory_full') {
      if (!began.isAboveShare)
        report(new Violation('neighbour', `${from} and ended, though others had taken the memory`))
    } else if (reason === 'killed') {
      report(new Violation('reason told', `${from} and ended as killed, though no client asked for it`))
    } else {
      // A frozen sandbox that was thawed has no snapshot any more.
      const isThawed = began.from === 'resuming' && ended.snapshot?.frozen === true
      const mayDie = ['running', 'snapshotting', 'pausing'].includes(began.from) || isThawed
      if (reason === 'lost' && this.#parts.wasExitReported(began.runID, ended.sandboxID))
        report(new Violation('reason told', `${from} and ended as lost, though it was told how it died`))
      if (ended.snapshot?.arrivesFrom)
        report(new Violation('pack needed', `${from} and ended as ${reason}, though the object store has it`))
      if (!mayDie || !hasDied(began.runID)) {
        report(
          new Violation('reason told', `${from} and ended as ${reason}, though nothing had happened to it`),
        )
      }
    }
  }
}

/** The row is what it was before a resume from the object store. */
const isReturned = (before: WatchedSandbox, { state, runID, isStored }: WatchedSandbox): boolean =>
  state === 'paused' && isStored && remoteRunOf(before)?.runID === runID

/** The run whose snapshot the object store has until the resume has ended, and all memory has arrived. */
const remoteRunOf = ({ state, snapshot }: WatchedSandbox): RemoteRun | undefined =>
  snapshot?.arrivesFrom ?? (state === 'resuming' ? snapshot?.storedFrom : undefined)

const name = ({ sandboxID }: WatchedSandbox): string => shortID(sandboxID)

function watched(row: Row): WatchedSandbox {
  const json = (text: string | number | null | undefined) => (text == null ? null : JSON.parse(String(text)))
  return {
    sandboxID: String(row.id),
    teamID: String(row.team_id),
    nodeID: String(row.node_id),
    buildID: String(row.build_id),
    isStored: row.stored_at !== null,
    state: row.state as SandboxState,
    runID: String(row.run_id),
    startedRunID: json(row.handle)?.data.runID ?? String(row.run_id),
    cpuCount: Number(row.cpu_count),
    memoryMB: Number(row.memory_mb),
    metadata: json(row.metadata),
    options: json(row.options),
    snapshot: json(row.saved),
    startedAt: Number(row.started_at),
    endAt: Number(row.end_at),
    endReason: row.end_reason as string | null,
    endBegan: undefined,
  }
}
