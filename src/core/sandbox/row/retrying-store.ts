/**
 * The rows of sandboxes over a store that may fail for a moment. A step that was rejected as `unavailable` is
 * retried a few times. It may have taken effect, so the row is read back before a retry that would otherwise
 * meet its own first attempt.
 */
import { isAppError } from '../../../lib/app-error.ts'
import type { Clock } from '../../../lib/clock.ts'
import { newUUID } from '../../../lib/ids.ts'
import { retryPassing } from '../../../lib/retry-passing.ts'
import type { NewSandbox, Sandbox } from './sandbox.ts'
import type { NamedChange, SandboxStore } from './sandbox-store.ts'

export function retryingSandboxStore(store: SandboxStore, clock: Clock): SandboxStore {
  const retry = <T>(step: (attempt: number) => Promise<T>) => retryPassing(clock, step)
  return {
    ...insertAndTransition(store, retry, clock),
    ...changesWhileRunning(store, retry, clock),
    find: (sandboxID) => retry(() => store.find(sandboxID)),
    list: (filter, page) => retry(() => store.list(filter, page)),
    count: (filter) => retry(() => store.count(filter)),
    sumActive: () => retry(() => store.sumActive()),
    sumActiveByTeam: () => retry(() => store.sumActiveByTeam()),
    teamsOf: (sandboxIDs) => retry(() => store.teamsOf(sandboxIDs)),
    countByState: () => retry(() => store.countByState()),
    listUnended: (states) => retry(() => store.listUnended(states)),
    setSnapshot: (at, snapshot) => retry(() => store.setSnapshot(at, snapshot)),
    forgetArrival: (at) =>
      retry(async (attempt) => {
        const row = attempt > 0 ? await store.find(at.sandboxID) : undefined
        const isDone = row?.state === 'running' && row.runID === at.runID && row.snapshot === null
        return isDone ? row : store.forgetArrival(at)
      }),
    stayPaused: (at, snapshot) =>
      retry(async (attempt) => {
        const row = attempt > 0 ? await store.find(at.sandboxID) : undefined
        const isDone = row?.state === 'paused' && row.runID === at.runID && row.runUntil === null
        return isDone ? row : store.stayPaused(at, snapshot)
      }),
    saveHandle: (sandboxID, runID, handle) => retry(() => store.saveHandle(sandboxID, runID, handle)),
    listExpired: (now, kind, limit) => retry(() => store.listExpired(now, kind, limit)),
    nextEnd: (kind) => retry(() => store.nextEnd(kind)),
    listLocked: () => retry(() => store.listLocked()),
    listSnapshotNames: () => retry(() => store.listSnapshotNames()),
    releaseClaim: (teamID, sandboxID) => retry(() => store.releaseClaim(teamID, sandboxID)),
    prune: (before) => retry(() => store.prune(before)),
  }
}

type Retry = <T>(step: (attempt: number) => Promise<T>) => Promise<T>

/** Steps whose second attempt would fail after a first one that took effect. */
function insertAndTransition(
  store: SandboxStore,
  retry: Retry,
  clock: Clock,
): Pick<SandboxStore, 'insertWithinLimits' | 'transition' | 'resumeWithinLimits' | 'reopen'> {
  return {
    insertWithinLimits(sandbox, limits, claim) {
      const isInserted = async () => isRowOf(sandbox, await store.find(sandbox.sandboxID))
      return retry(async (attempt) => {
        if (attempt > 0 && (await isInserted())) return { inserted: true }
        try {
          const result = await store.insertWithinLimits(sandbox, limits, claim)
          if (result.inserted || attempt === 0) return result
          // The earlier request with this key may be an earlier attempt of this one.
          const isOwn = 'earlier' in result && result.earlier.sandboxID === sandbox.sandboxID
          return isOwn ? { inserted: true } : { ...result, mayStillAppear: true }
        } catch (error) {
          // An earlier attempt took effect between the check and this attempt.
          if (attempt > 0 && isAppError(error, 'already_exists') && (await isInserted()))
            return { inserted: true }
          throw error
        }
      })
    },
    transition(at, to, changes) {
      const names = new ChangeNames(clock)
      return retry(async (attempt) => {
        const transitioned = await store.transition(at, to, changes, names.next())
        if (transitioned || attempt === 0) return transitioned
        const row = await store.find(at.sandboxID)
        return names.areOf(row) ? row : undefined
      })
    },
    resumeWithinLimits: (at, limits, changes) =>
      retry(async (attempt) => {
        const row = attempt > 0 ? await store.find(at.sandboxID) : undefined
        if (row && row.state === 'resuming' && row.runID === changes.runID) return { resumed: row }
        return store.resumeWithinLimits(at, limits, changes)
      }),
    reopen(sandboxID, changes) {
      const names = new ChangeNames(clock)
      return retry(async (attempt) => {
        const row = attempt > 0 ? await store.find(sandboxID) : undefined
        if (row && row.state === 'paused' && row.runID === changes.runID) return row
        return store.reopen(sandboxID, changes, names.next())
      })
    },
  }
}

/** Steps whose second attempt would write a second event. */
function changesWhileRunning(
  store: SandboxStore,
  retry: Retry,
  clock: Clock,
): Pick<SandboxStore, 'setEnd' | 'setOptions'> {
  const once = async (
    sandboxID: string,
    step: (named: NamedChange) => Promise<Sandbox | undefined>,
  ): Promise<Sandbox | undefined> => {
    const names = new ChangeNames(clock)
    return retry(async (attempt) => {
      const row = attempt > 0 ? await store.find(sandboxID) : undefined
      return names.areOf(row) ? row : step(names.next())
    })
  }
  return {
    setEnd: (at, endAt, onlyExtend) =>
      once(at.sandboxID, (named) => store.setEnd(at, endAt, onlyExtend, named)),
    setOptions: (at, options) => once(at.sandboxID, (named) => store.setOptions(at, options, named)),
  }
}

/** True if it is this very sandbox, and not another one with its ID. */
const isRowOf = (sandbox: NewSandbox, row: Sandbox | undefined): boolean =>
  row?.runID === sandbox.runID && row.teamID === sandbox.teamID && row.createdAt === sandbox.createdAt

/**
 * A new ID for each attempt of one change: if others changed the row in between, a second attempt is a change
 * of its own.
 */
class ChangeNames {
  readonly #clock: Clock
  readonly #given = new Set<string>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  next(): NamedChange {
    const transitionID = newUUID()
    this.#given.add(transitionID)
    return { transitionID, at: this.#clock.now() }
  }

  /** True if the last change of the row was one of these attempts. */
  areOf(row: Sandbox | undefined): boolean {
    return row?.transitionID != null && this.#given.has(row.transitionID)
  }
}
