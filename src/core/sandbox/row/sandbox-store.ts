/**
 * The rows of sandboxes. As in all stores, a change is done, not done, or of unknown outcome
 * (`store/stores.ts`).
 */
import type { DriverHandle } from '../../ports/driver.ts'
import type { TeamLimits } from '../../team/team.ts'
import type {
  NewSandbox,
  RemoteRun,
  Sandbox,
  SandboxOptions,
  SandboxSnapshot,
  SandboxState,
} from './sandbox.ts'

export type SandboxFilter = {
  teamID: string
  states: readonly SandboxState[]
  metadata?: Record<string, string>
  templateID?: string
  startedAfter?: number
}

export type SandboxPage = {
  order: 'asc' | 'desc'
  limit: number
  /** The last row of the previous page: (startedAt, sandboxID). */
  after?: { startedAt: number; sandboxID: string }
}

export type SandboxChanges = Partial<
  Pick<
    Sandbox,
    'runID' | 'handle' | 'snapshot' | 'startedAt' | 'endAt' | 'endedAt' | 'endReason' | 'runUntil'
  >
> & {
  /** A snapshot of the sandbox was taken, which is an event. */
  isCheckpointed?: true
  /** The object store has the snapshot. */
  stored?: RemoteRun
}

/**
 * Identifies a change, so that a caller that lost the answer finds the ID in the row, and tells its time. A
 * change that clients can see writes an event with this ID in the same transaction. Without it no event is
 * written.
 */
export type NamedChange = { transitionID: string; at: number }

/** The condition for a move: compare and set. */
export type SandboxFence = {
  sandboxID: string
  runID: string
  from: readonly SandboxState[]
  /** Set if the move depends on the sandbox's timeout. */
  endAt?: number
  /** Set by the holder of the turn: the row must be the one that it read. */
  version?: number
}

/** The condition for another end. Without `endAt` it does not matter what the end was. */
export type EndFence = Pick<SandboxFence, 'sandboxID' | 'runID' | 'endAt'>

/** The condition for a resume. `markedUntil`: the row's `runUntil`, if that is the reason for the resume. */
export type PausedFence = RowInTurn & { markedUntil?: number }

/** The row as the holder of its turn read it. A change applies to no other version. */
export type RowInTurn = Pick<Sandbox, 'sandboxID' | 'runID' | 'version'>

export type ExceededLimit = 'maxSandboxes' | 'maxCPU' | 'maxMemoryMB' | 'maxGPUs'

/** `attemptKey`: another node passed the request on, and may give up this attempt (`LostCreate`). */
export type IdempotencyClaim = { key: string; requestHash: string; attemptKey?: string | undefined }

/** A request with an idempotency key, and the sandbox that it created or creates. */
export type EarlierRequest = { requestHash: string; sandboxID: string }

/** A create that was passed on to the node, whose answer did not arrive. */
export type LostCreate = { teamID: string; key: string; attemptKey: string; nodeID: string; at: number }

/** Rows of sandboxes of any node; only the owner may act on a sandbox. */
export interface SandboxFinder {
  findSandbox(sandboxID: string): Promise<Sandbox | undefined>
  /** Returns those of the sandboxes that belong to the team, including ended ones. */
  sandboxesOfTeam(teamID: string, sandboxIDs: readonly string[]): Promise<string[]>
}

/** Finds sandboxes that moved to another node, so that their remains here are copies. */
export interface CopyFinder {
  /** Returns those of the sandboxes that another node owns. */
  listElsewhere(sandboxIDs: readonly string[]): Promise<string[]>
}

/** Read access to the rows of sandboxes. */
export type SandboxReader = Pick<
  SandboxStore,
  | 'find'
  | 'list'
  | 'count'
  | 'sumActive'
  | 'sumActiveByTeam'
  | 'teamsOf'
  | 'countByState'
  | 'listUnended'
  | 'listExpired'
  | 'nextEnd'
  | 'listLocked'
  | 'listSnapshotNames'
>

/** What happens to a sandbox when its timeout is over. */
export type ExpiryKind = 'kill' | 'pause'

export interface SandboxStore {
  /**
   * Inserts the row as `creating` if its template and volumes exist and the team stays within its limits,
   * atomically, so that concurrent creates cannot exceed the limits together. If the claim's key is known
   * already, inserts nothing and returns the earlier request. `isGivenUp`: the same for an attempt that another node has given up. `mayStillAppear`: an earlier attempt of this
   * call, whose answer was lost, may still reach the database.
   */
  insertWithinLimits(
    sandbox: NewSandbox,
    limits: TeamLimits,
    claim?: IdempotencyClaim,
  ): Promise<
    | { inserted: true }
    | { inserted: false; exceeded: ExceededLimit; mayStillAppear?: boolean }
    | { inserted: false; earlier: EarlierRequest; mayStillAppear?: boolean }
    | { inserted: false; isGivenUp: true; mayStillAppear?: boolean }
  >
  /** Finds a sandbox of this node only. */
  find(sandboxID: string): Promise<Sandbox | undefined>
  /** `list` and `count` cover the sandboxes of all nodes. */
  list(filter: SandboxFilter, page: SandboxPage): Promise<Sandbox[]>
  count(filter: SandboxFilter): Promise<number>
  /**
   * CPU and memory allocated to this node's running and frozen sandboxes, without those that are starting.
   */
  sumActive(): Promise<{ sandboxes: number; cpuCount: number; memoryMB: number }>
  /** The same for each team that has sandboxes on this node. */
  sumActiveByTeam(): Promise<{ teamID: string; sandboxes: number; cpuCount: number; memoryMB: number }[]>
  /** Teams of those sandboxes that have a row, of any node and in any state. */
  teamsOf(sandboxIDs: readonly string[]): Promise<Map<string, string>>
  countByState(): Promise<{ state: SandboxState; count: number }[]>
  /** Returns the rows that have not ended, or only those in the given states. */
  listUnended(states?: readonly SandboxState[]): Promise<Sandbox[]>
  /**
   * The only way to change a state. Undefined if the row does not match `at`. Clears `runUntil` if the
   * sandbox runs or ends.
   */
  transition(
    at: SandboxFence,
    to: SandboxState,
    changes?: SandboxChanges,
    named?: NamedChange,
  ): Promise<Sandbox | undefined>
  /**
   * Moves a paused sandbox to `resuming` if the team stays within its limits, atomically, so that concurrent
   * creates and resumes cannot exceed the limits together. `moved` is undefined if the row has moved on.
   */
  resumeWithinLimits(
    at: PausedFence,
    limits: TeamLimits,
    changes: SandboxChanges,
  ): Promise<{ resumed: Sandbox | undefined } | { exceeded: ExceededLimit }>
  /**
   * Lets a sandbox that a drain has paused stay paused, with this snapshot. Undefined if it is no longer
   * paused in this run, or not to run again.
   */
  stayPaused(at: RowInTurn, snapshot: SandboxSnapshot): Promise<Sandbox | undefined>
  /** Corrects the snapshot of a paused sandbox. Undefined if it is no longer paused in this run. */
  setSnapshot(at: RowInTurn, snapshot: SandboxSnapshot): Promise<Sandbox | undefined>
  /** Removes the snapshot from the row of a running sandbox. Undefined if it is no longer in this run and state. */
  forgetArrival(at: RowInTurn): Promise<Sandbox | undefined>
  /** Changes the options of a running sandbox. Undefined if it is no longer in this run and state. */
  setOptions(
    at: RowInTurn & Pick<Sandbox, 'teamID'>,
    options: SandboxOptions,
    named?: NamedChange,
  ): Promise<Sandbox | undefined>
  /** Writes the handle of a run as soon as it is known. False if the run is over. */
  saveHandle(sandboxID: string, runID: string, handle: DriverHandle): Promise<boolean>
  /**
   * Sets the end of a running sandbox. `onlyExtend` never makes it earlier. Undefined if it is no longer in
   * this run and state, or its end is another one than the caller read.
   */
  setEnd(at: EndFence, endAt: number, onlyExtend: boolean, named?: NamedChange): Promise<Sandbox | undefined>
  /** Running rows whose timeout is over and that must be killed or paused; earliest first. */
  listExpired(now: number, kind: ExpiryKind, limit: number): Promise<Sandbox[]>
  /** The earliest end of the running rows that will be killed or paused then. */
  nextEnd(kind: ExpiryKind): Promise<number | undefined>
  /**
   * Sandboxes that have not ended and whose network options cannot be decrypted: they are read as closed to
   * all.
   */
  listLocked(): Promise<{ sandboxID: string; why: string }[]>
  /** Every snapshot that the row of a sandbox of any node names, unless the sandbox has ended. */
  listSnapshotNames(): Promise<string[]>
  /**
   * Turns an ended sandbox back into a paused one with a snapshot from quarantine, and removes that from
   * quarantine in the same transaction. Undefined if the row does not exist or has not ended, or if the
   * snapshot is not in quarantine.
   */
  reopen(
    sandboxID: string,
    changes: Required<Pick<Sandbox, 'runID' | 'endAt' | 'handle'>> & { snapshot: SandboxSnapshot },
    named?: NamedChange,
  ): Promise<Sandbox | undefined>
  /** Removes the idempotency key, so that the request can be made again. */
  releaseClaim(teamID: string, sandboxID: string): Promise<void>
  /** Removes older idempotency keys, and older ended rows unless a snapshot of theirs is in quarantine. */
  prune(before: number): Promise<number>
}
