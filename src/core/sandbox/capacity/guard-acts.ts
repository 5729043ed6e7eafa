/**
 * The last acts of the guards, for the operator: what a guard did, to which sandbox of which team, and why. They are kept in
 * memory and begin anew with the process; the log of the server has all of them.
 */
import type { Clock } from '../../../lib/clock.ts'
import { noTeam, type TeamShare } from './team-share.ts'

export type ResourceGuard = 'memory' | 'disk'
/** `starts`: the queue in which starts wait until the machine can carry them. */
type Guard = ResourceGuard | 'starts'
/** `refused`: a start, a pause, a copy, a build or a volume was rejected. */
export type Act = 'frozen' | 'continued' | 'paused' | 'ended' | 'refused'

export type GuardAct = {
  guard: Guard
  act: Act
  teamID: string
  /** Undefined: a request was refused. */
  sandboxID?: string | undefined
  /** A sentence. */
  why: string
}

/** The same act on the same sandbox, or on requests of the same team, is one entry. Its reason is that of the last time. */
export type NotedAct = GuardAct & { firstAt: number; lastAt: number; count: number }

const maxActs = 200
const mebibyte = 1024 * 1024

export class GuardActs {
  readonly #clock: Pick<Clock, 'now'>
  readonly #acts = new Map<string, NotedAct>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** The latest first. */
  list(): NotedAct[] {
    return [...this.#acts.values()].reverse()
  }

  /** What concerns no team, as the warm pool, is not noted. */
  note(act: GuardAct): void {
    if (act.teamID === noTeam) return
    const key = [act.guard, act.act, act.sandboxID ?? act.teamID].join(' ')
    const before = this.#acts.get(key)
    // A guard ends the sandbox of a build in each of its looks until the build has noticed.
    if (before && act.act === 'ended') return
    const now = this.#clock.now()
    this.#acts.delete(key)
    this.#acts.set(key, {
      ...act,
      firstAt: before?.firstAt ?? now,
      lastAt: now,
      count: (before?.count ?? 0) + 1,
    })
    if (this.#acts.size > maxActs) this.#acts.delete(this.#acts.keys().next().value!)
  }
}

/** Why a guard touched a sandbox: what was left, and how its team stood to its share. */
export function whyTouched(left: string, shares: readonly TeamShare[], teamID: string): string {
  const share = shares.find((one) => one.teamID === teamID)
  if (!share) return `${left}.`
  const [used, fair] = [mebibytes(share.usedBytes), mebibytes(share.fairBytes)]
  return `${left}. The team used ${used}; its fair share was ${fair}.`
}

export const mebibytes = (bytes: number): string => `${Math.max(0, Math.floor(bytes / mebibyte))} MiB`
