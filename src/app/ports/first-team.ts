/** The first start creates a team and a key for it, so that there is never a default secret to change. */
import type { TeamService } from '../../core/team/service.ts'
import type { Team } from '../../core/team/team.ts'
import { isAppError } from '../../lib/app-error.ts'
import { type DataPaths, type FirstKey, readCredentials, saveCredentials } from '../data/data-folder.ts'

const firstTeam = 'default'

export async function ensureFirstTeam(
  teams: Pick<TeamService, 'createKey' | 'createTeam' | 'listTeams'>,
  paths: DataPaths,
): Promise<FirstKey> {
  const known = await teams.listTeams()
  const stored = await readCredentials(paths)
  // A key that was revoked is not replaced: only a database without the team needs a new key.
  if (stored && known.some((team) => team.teamID === stored.teamID)) return stored
  const team = known.find(isFirst) ?? (await makeFirstTeam(teams))
  const { key } = await teams.createKey(team.teamID, 'made at the first start')
  const credentials = { teamID: team.teamID, apiKey: key }
  await saveCredentials(paths, credentials)
  return credentials
}

async function makeFirstTeam(teams: Pick<TeamService, 'createTeam' | 'listTeams'>): Promise<Team> {
  try {
    return await teams.createTeam(firstTeam)
  } catch (error) {
    if (!isAppError(error, 'already_exists')) throw error
    // Another Warren on the same database created it meanwhile.
    const made = (await teams.listTeams()).find(isFirst)
    if (!made) throw error
    return made
  }
}

const isFirst = ({ slug }: Team): boolean => slug === firstTeam
