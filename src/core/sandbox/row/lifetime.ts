/** How long a sandbox may live. A team's maximum counts from the start of the run. */
import { AppError } from '../../../lib/app-error.ts'
import type { TeamLimits } from '../../team/team.ts'
import { lifetimeUsedUp, timeoutTooLong } from './errors.ts'

const shortestRefreshMs = 15_000

export const longestLifetime = (limits: TeamLimits): number => limits.maxLifetimeHours * 3_600_000

export function checkTimeout(timeoutMs: number, limits: TeamLimits): void {
  if (timeoutMs > longestLifetime(limits)) throw timeoutTooLong(limits)
}

export function checkCreateTimeout(timeoutMs: number, limits: TeamLimits): void {
  if (timeoutMs <= 0) throw new AppError('invalid_argument', 'Timeout must be greater than 0')
  checkTimeout(timeoutMs, limits)
}

/** Returns the end `timeoutMs` from now, but not later than the team's maximum allows. */
export function endAfter(now: number, timeoutMs: number, startedAt: number, limits: TeamLimits): number {
  const latest = startedAt + longestLifetime(limits)
  if (timeoutMs > 0 && latest <= now) throw lifetimeUsedUp(limits)
  return Math.min(now + timeoutMs, latest)
}

export const refreshDuration = (durationMs: number): number => Math.max(durationMs, shortestRefreshMs)
