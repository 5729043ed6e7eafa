import type { Team } from '../../../core/team/team.ts'
import type { UsagePeriod } from '../../../core/team/usage.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'

/** The latest time that E2B's API takes. */
const latest = '2299-12-31T23:59:59Z'
const usualPeriodMs = 7 * 24 * 3_600_000

/** Converts the Unix seconds of a query to milliseconds; the default is the last seven days. */
export function usagePeriod(
  { start, end }: { start?: number; end?: number },
  { clock }: Pick<RouteContext, 'clock'>,
): UsagePeriod {
  for (const [name, seconds] of Object.entries({ start, end })) {
    if (seconds !== undefined && seconds * 1000 > Date.parse(latest))
      throw new AppError('invalid_argument', `${name} time cannot be after ${latest}`)
  }
  const now = clock.now()
  const to = end === undefined ? now : end * 1000
  return { from: start === undefined ? to - usualPeriodMs : start * 1000, to, now }
}

export function requireNamedTeam(team: Team, named: string): Team {
  if (named === team.teamID || named === team.slug) return team
  throw new AppError('permission_denied', `The key belongs to another team than '${named}'`)
}
