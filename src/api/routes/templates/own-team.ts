import type { Team } from '../../../core/team/team.ts'
import { AppError } from '../../../lib/app-error.ts'

/** Old clients name their team in the query; it must be the team of their key. */
export function requireOwnTeam(team: Team, named: string | undefined): Team {
  if (named === undefined || named === team.teamID || named === team.slug) return team
  throw new AppError('invalid_argument', `teamID '${named}' is not the team of this key; leave it out`)
}
