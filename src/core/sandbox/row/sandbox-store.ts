/**
 * The rows of sandboxes. As in all stores, a step that changes something is done, not done, or of unknown outcome
 * (`store/stores.ts`).
 */
import type { DriverHandle } from '../../ports/driver.ts'
import type { TeamLimits } from '../../team/team.ts'
import type { NewSandbox, Sandbox, SandboxOptions, SandboxSnapshot, SandboxState } from './sandbox.ts'

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
  /** The last row of the page before: (startedAt, sandboxID). */
  after?: { startedAt: number; sandboxID: string }
}

export type SandboxChanges = Partial<
  Pick<
    Sandbox,
    'runID' | 'handle' | 'snapshot' | 'startedAt' | 'endAt' | 'endedAt' | 'endReason' | 'runUntil'
  >
> & {
  /** A snapshot was taken of it meanwhile, which is an event. */
  isCheckpointed?: true
}

/**
 * Names a change, so that who could not see its outcome finds the name in the row afterwards, and says when it was made.
 * Changes that are news for clients are told as an event by that name, in the same step. Without it nothing is told.
 */
export type NamedChange = { moveID: string; at: number }

/** What must hold of a row for a move to take effect: compare and set. */
export type SandboxFence = {
  sandboxID: string
  runID: string
  from: readonly SandboxState[]
  /** The end of its time, where that is what the move is about. */
  endAt?: number
}

/** A paused sandbox that is to be resumed. `markedUntil`: its `runUntil`, where that is why. */
export type PausedFence = { sandboxID: string; runID: string; markedUntil?: number }

/** One run of a team's sandbox. */
export type SandboxRun = Pick<Sandbox, 'sandboxID' | 'teamID' | 'runID'>

export type ExceededLimit = 'maxSandboxes' | 'maxCPU' | 'maxMemoryMB' | 'maxGPUs'

export type IdempotencyClaim = { key: string; requestHash: string }

/** Sandboxes of any node, as their rows say; only its owner may act on one. */
export interface SandboxFinder {
  findSandbox(sandboxID: string): Promise<Sandbox | undefined>
  /** Which of these are the team's, ended ones included. */
  sandboxesOfTeam(teamID: string, sandboxIDs: readonly string[]): Promise<string[]>
}

/** Which sandboxes went to another node, so that what is left of them here is a copy. */
export interface CopyFinder {
  /** Those of the sandboxes that another node owns. */
  listElsewhere(sandboxIDs: readonly string[]): Promise<string[]>
}

/** What rows of sandboxes say. */
export type SandboxReader = Pick<
  SandboxStore,
  | 'find'
  | 'list'
  | 'count'
  | 'sumActive'
  | 'countByState'
  | 'listUnended'
  | 'listExpired'
  | 'nextEnd'
  | 'listLocked'
  | 'listSnapshotNames'
>

/** What happens to a sandbox at the end of its time. */
export type ExpiryKind = 'kill' | 'pause'

export interface SandboxStore {
  /**
   * Inserts the row as `creating` if its template and its volumes are still there and the team stays within its limits, all in one
   * step that parallel creates cannot pass together. With a claim whose key is known already, nothing is inserted and the earlier
   * request is returned. `mayStillAppear`: an earlier try of this call, whose answer was lost, may reach the database later.
   */
  insertWithinLimits(
    sandbox: NewSandbox,
    limits: TeamLimits,
    claim?: IdempotencyClaim,
  ): Promise<
    | { inserted: true }
    | { inserted: false; exceeded: ExceededLimit; mayStillAppear?: boolean }
    | {
        inserted: false
        earlier: { requestHash: string; sandboxID: string }
        mayStillAppear?: boolean
      }
  >
  /** Only a sandbox of this node. */
  find(sandboxID: string): Promise<Sandbox | undefined>
  /** `list` and `count` know the sandboxes of all nodes. */
  list(filter: SandboxFilter, page: SandboxPage): Promise<Sandbox[]>
  count(filter: SandboxFilter): Promise<number>
  /** What the sandboxes of this node that run, or are frozen, were promised; those that start are not counted. */
  sumActive(): Promise<{ sandboxes: number; cpuCount: number; memoryMB: number }>
  countByState(): Promise<{ state: SandboxState; count: number }[]>
  /** Every row that is not ended, or only those in some of the states. */
  listUnended(states?: readonly SandboxState[]): Promise<Sandbox[]>
  /** The one way a state changes. Undefined when the row is not as `at` says. What runs or ends has no `runUntil` any more. */
  move(
    at: SandboxFence,
    to: SandboxState,
    changes?: SandboxChanges,
    named?: NamedChange,
  ): Promise<Sandbox | undefined>
  /**
   * Moves a paused sandbox to `resuming` if the team stays within its limits, in one step that parallel creates
   * and resumes cannot pass together. `moved` is undefined when the row has moved on.
   */
  resumeWithinLimits(
    at: PausedFence,
    limits: TeamLimits,
    changes: SandboxChanges,
  ): Promise<{ moved: Sandbox | undefined } | { exceeded: ExceededLimit }>
  /**
   * A sandbox that a drain has paused stays paused, with this snapshot. Undefined when it is not paused in that run any
   * more, or not to run again.
   */
  stayPaused(sandboxID: string, runID: string, snapshot: SandboxSnapshot): Promise<Sandbox | undefined>
  /** Corrects what is kept of a paused sandbox. Undefined when it is not paused in that run any more. */
  setSnapshot(sandboxID: string, runID: string, snapshot: SandboxSnapshot): Promise<Sandbox | undefined>
  /** Changes what was asked for while it runs. Undefined when it is not in that run and state any more. */
  setOptions(at: SandboxRun, options: SandboxOptions, named?: NamedChange): Promise<Sandbox | undefined>
  /** Saves the handle of a run as soon as it is known. False when the run is over. */
  saveHandle(sandboxID: string, runID: string, handle: DriverHandle): Promise<boolean>
  /**
   * Sets the end of a running sandbox. `onlyExtend` never makes it earlier. Undefined when it is not in
   * that run and state any more.
   */
  setEnd(
    sandboxID: string,
    runID: string,
    endAt: number,
    onlyExtend: boolean,
    named?: NamedChange,
  ): Promise<Sandbox | undefined>
  /** Running rows whose end has come, and that are to be killed, or paused, then; earliest first. */
  listExpired(now: number, kind: ExpiryKind, limit: number): Promise<Sandbox[]>
  /** The earliest end of any running row that is to be killed, or paused, then. */
  nextEnd(kind: ExpiryKind): Promise<number | undefined>
  /** Sandboxes that have not ended and whose network cannot be opened: they are read as closed to all. */
  listLocked(): Promise<{ sandboxID: string; why: string }[]>
  /** Every snapshot that a row which has not ended names, of all nodes. */
  listSnapshotNames(): Promise<string[]>
  /**
   * Takes an ended sandbox back as paused with a snapshot that was in quarantine, and removes that from quarantine
   * in the same step. Undefined when the row has not ended or is not there, or the snapshot is not in quarantine.
   */
  reopen(
    sandboxID: string,
    changes: Required<Pick<Sandbox, 'runID' | 'endAt' | 'handle'>> & { snapshot: SandboxSnapshot },
    named?: NamedChange,
  ): Promise<Sandbox | undefined>
  /** Forgets the key, so that the request can be made again. */
  releaseClaim(teamID: string, sandboxID: string): Promise<void>
  /** Forgets keys older than this, and ended rows unless a snapshot of theirs is in quarantine. */
  prune(before: number): Promise<number>
}
