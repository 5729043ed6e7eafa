/** Logging in with an API key or the admin token, and staying so while the tab is open. */
import { ask, RestFailure } from './rest.ts'
import { type Credential, type KnownTeam, type Session, scopeKey, session } from './session.ts'

const storageKey = 'warren.credential'

/** An API key names its own kind; all else must be the admin token. */
function credentialOf(text: string): Credential {
  const secret = text.trim()
  return { kind: /^(?:sk_)?e2b_/.test(secret) ? 'key' : 'admin', secret }
}

export async function logIn(text: string): Promise<void> {
  const credential = credentialOf(text)
  if (credential.secret === '') throw new RestFailure(401, 'Paste an API key or the admin token.')
  session.set(await openSession(credential))
  sessionStorage.setItem(storageKey, JSON.stringify(credential))
}

export function logOut(): void {
  sessionStorage.removeItem(storageKey)
  sessionStorage.removeItem(scopeKey)
  session.set(undefined)
}

/** False: this tab has nobody logged in, or the key was revoked. */
export async function resume(): Promise<boolean> {
  const stored = sessionStorage.getItem(storageKey)
  if (stored === null) return false
  try {
    session.set(await openSession(JSON.parse(stored) as Credential))
    return true
  } catch (error) {
    if (!(error instanceof RestFailure) || error.status !== 401) throw error
    logOut()
    return false
  }
}

async function openSession(credential: Credential): Promise<Session> {
  const { kind, secret } = credential
  const headers: Record<string, string> =
    kind === 'key' ? { 'X-API-Key': secret } : { 'X-Admin-Token': secret }
  const teams = await ask<KnownTeam[]>(kind === 'key' ? '/teams' : '/admin/teams', { headers })
  const stored = sessionStorage.getItem(scopeKey)
  const scope = teams.some(({ teamID }) => teamID === stored) ? stored : null
  return { credential, teams, scope: kind === 'key' ? (teams[0]?.teamID ?? null) : scope }
}

export async function reloadTeams(): Promise<void> {
  const current = session.get()
  if (current) session.set(await openSession(current.credential))
}
