/**
 * Who is logged in. The credential lives in this tab's session storage and nowhere else: no cookie, nothing that a page of
 * another origin could send or read.
 */
import type { Team } from '../../contract/rest/team.ts'
import { Shared } from './store.ts'

export type Credential = { kind: 'key'; secret: string } | { kind: 'admin'; secret: string }

/** A team as its own key shows it, in part; the operator sees all fields. */
export type KnownTeam = Pick<Team, 'teamID' | 'name'> & Partial<Team>

export type Session = {
  credential: Credential
  /** The teams that the credential gives access to: one with a key, all of them with the admin token. */
  teams: KnownTeam[]
  /** The team that an operator looks at; null: all of them. */
  scope: string | null
}

export const scopeKey = 'warren.scope'

export const session = new Shared<Session | undefined>(undefined)

export const isAdmin = (): boolean => session.get()?.credential.kind === 'admin'

export function credentialHeaders(team?: string): Record<string, string> {
  const credential = session.get()?.credential
  if (!credential) return {}
  if (credential.kind === 'key') return { 'X-API-Key': credential.secret }
  return { 'X-Admin-Token': credential.secret, ...(team !== undefined && { 'X-Team-ID': team }) }
}

export function setScope(scope: string | null): void {
  const current = session.get()
  if (!current) return
  if (scope === null) sessionStorage.removeItem(scopeKey)
  else sessionStorage.setItem(scopeKey, scope)
  session.set({ ...current, scope })
}

export function teamsInScope(): KnownTeam[] {
  const current = session.get()
  if (!current) return []
  const { teams, scope } = current
  return scope === null ? teams : teams.filter(({ teamID }) => teamID === scope)
}

/** Lists say whose things are: the operator looks at the teams together. */
export const showsTeams = (): boolean => isAdmin() && session.get()?.scope === null

export const teamName = (teamID: string | undefined): string =>
  session.get()?.teams.find((team) => team.teamID === teamID)?.name ?? teamID ?? ''

const teamsAtOnce = 4

/** The things of every team in scope, each with its team. */
export async function ofTeams<T extends object>(
  load: (teamID: string) => Promise<T[]>,
  onPart?: (soFar: (T & { team: string })[]) => void,
): Promise<(T & { team: string })[]> {
  const found: (T & { team: string })[] = []
  const waiting = [...teamsInScope()]
  const loadNext = async () => {
    for (let team = waiting.shift(); team; team = waiting.shift()) {
      const { teamID } = team
      for (const one of await load(teamID)) found.push({ ...one, team: teamID })
      if (waiting.length > 0) onPart?.([...found])
    }
  }
  await Promise.all(Array.from({ length: teamsAtOnce }, loadNext))
  return found
}
