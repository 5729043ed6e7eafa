/**
 * Who is logged in. A key lives in this tab's session storage and nowhere else: no cookie, nothing that a page of another origin
 * could send or read. The session of a person lies in a cookie that this page cannot read, and that works only from here.
 */
import type { WhoIAm } from '../../contract/rest/session.ts'
import type { Team } from '../../contract/rest/team.ts'
import { Shared } from './store.ts'

export type Credential =
  | { kind: 'key'; secret: string }
  | { kind: 'admin'; secret: string }
  | { kind: 'person' }

export type NeededRole = WhoIAm['teams'][number]['role']

/** A team as its own key shows it, in part; the operator sees all fields. */
export type KnownTeam = Pick<Team, 'teamID' | 'name'> &
  Partial<Team> & {
    /** What the reader may do there; undefined: everything. */
    role?: NeededRole
  }

export type Session = {
  credential: Credential
  /** The teams that the credential gives access to: one with a key, all of them with the admin token. */
  teams: KnownTeam[]
  /** The team that somebody with several looks at; null: all of them. */
  scope: string | null
  /** Set if a person signed in. */
  person?: WhoIAm['person']
}

export const scopeKey = 'warren.scope'

export const session = new Shared<Session | undefined>(undefined)

export function isAdmin(): boolean {
  const current = session.get()
  return current?.credential.kind === 'admin' || current?.person?.isOperator === true
}

export const isPerson = (): boolean => session.get()?.credential.kind === 'person'

/** Requests and addresses of such a reader say for which team they are. */
export const hasTeams = (): boolean => isAdmin() || (session.get()?.teams.length ?? 0) > 1

const ranks: Record<NeededRole, number> = { viewer: 0, member: 1, owner: 2 }

/** Whether the reader has this role in the team, or in any team that they look at. The server decides again. */
export function may(needed: NeededRole, team?: string): boolean {
  const teams = team === undefined ? teamsInScope() : teamsOf(team)
  return isAdmin() || teams.some(({ role = 'owner' }) => ranks[role] >= ranks[needed])
}

const teamsOf = (teamID: string): KnownTeam[] =>
  session.get()?.teams.filter((team) => team.teamID === teamID) ?? []

export function credentialHeaders(team?: string): Record<string, string> {
  const credential = session.get()?.credential
  if (!credential) return {}
  if (credential.kind === 'key') return { 'X-API-Key': credential.secret }
  if (credential.kind === 'person') {
    const named = team || session.get()?.scope || undefined
    return named === undefined ? {} : { 'X-Team-ID': named }
  }
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

/** Lists say whose things are: the reader looks at several teams together. */
export const showsTeams = (): boolean => hasTeams() && session.get()?.scope === null

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
