import type { Team } from '../../../core/team/team.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'

const usualPeriodMs = 7 * 24 * 3_600_000

/** Converts the Unix seconds of a query to milliseconds; the default is the last seven days. */
export function usagePeriod(
  { start, end }: { start?: number; end?: number },
  { clock }: Pick<RouteContext, 'clock'>,
): [from: number, to: number] {
  const to = end === undefined ? clock.now() : end * 1000
  return [start === undefined ? to - usualPeriodMs : start * 1000, to]
}

export function requireNamedTeam(team: Team, named: string): Team {
  if (named === team.teamID || named === team.slug) return team
  throw new AppError('permission_denied', `The key belongs to another team than '${named}'`)
}
