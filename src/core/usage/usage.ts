/** What teams and their people have used, by day. Days are those of UTC. */

/** Amounts that add up over days, people and nodes. */
export type Amounts = {
  /** Time in which sandboxes ran. */
  runningMs: number
  /** CPUs that sandboxes had, times the time in which they had them, whether they used them or not. */
  cpuMs: number
  /** MiB of memory that sandboxes had, times the time. */
  memoryMBMs: number
  gpuMs: number
  /** Bytes that sandboxes sent: to the internet, and as answers to clients. */
  sentBytes: number
  /** MiB on the disks of nodes, times the time: sandboxes, snapshots and templates. */
  storedMBMs: number
}

export const noAmounts: Amounts = {
  runningMs: 0,
  cpuMs: 0,
  memoryMBMs: 0,
  gpuMs: 0,
  sentBytes: 0,
  storedMBMs: 0,
}

/** `personID` is null for what no person started: services, and the operator. */
export type DayUsage = Amounts & { day: string; teamID: string; personID: string | null }

/** The time from a start or resume of a sandbox to its pause or end. */
export type UsedRun = {
  teamID: string
  personID: string | null
  startedAt: number
  endedAt: number
  cpuCount: number
  memoryMB: number
  gpuCount: number
}

export const dayMs = 24 * 3_600_000

/** As in `2026-11-20`. */
export const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

const startOfDay = (at: number): number => Math.floor(at / dayMs) * dayMs

/** The first moment of the month of `at`. */
export function startOfMonth(at: number): number {
  const date = new Date(at)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
}

/** A run is counted on each day that it touched. One whose clock went back has used nothing. */
export function usageOfRun(run: UsedRun): DayUsage[] {
  const { teamID, personID, startedAt, endedAt, cpuCount, memoryMB, gpuCount } = run
  const days: DayUsage[] = []
  for (let from = startedAt; from < endedAt; from = startOfDay(from) + dayMs) {
    const runningMs = Math.min(endedAt, startOfDay(from) + dayMs) - from
    days.push({
      ...noAmounts,
      day: dayOf(from),
      teamID,
      personID,
      runningMs,
      cpuMs: runningMs * cpuCount,
      memoryMBMs: runningMs * memoryMB,
      gpuMs: runningMs * gpuCount,
    })
  }
  return days
}

export function addAmounts(one: Amounts, other: Amounts): Amounts {
  const names = Object.keys(noAmounts) as (keyof Amounts)[]
  return Object.fromEntries(names.map((name) => [name, one[name] + other[name]])) as Amounts
}

/** One for each day, team and person, in this order. */
export function sumByDay(usage: readonly DayUsage[]): DayUsage[] {
  const sums = new Map<string, DayUsage>()
  for (const each of usage) {
    const key = [each.day, each.teamID, each.personID ?? ''].join(' ')
    const sum = sums.get(key)
    sums.set(key, sum ? { ...sum, ...addAmounts(sum, each) } : each)
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum)
}
