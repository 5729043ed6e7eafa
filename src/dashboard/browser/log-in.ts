/** Logging in with a provider, an API key or the admin token, and staying so. */
import type { WhoIAm } from '../../contract/rest/session.ts'
import type { Team } from '../../contract/rest/team.ts'
import { ask, RestFailure } from './rest.ts'
import { type Credential, isPerson, type KnownTeam, type Session, scopeKey, session } from './session.ts'

const storageKey = 'warren.credential'

/** An API key names its own kind; all else must be the admin token. */
function credentialOf(text: string): Exclude<Credential, { kind: 'person' }> {
  const secret = text.trim()
  return { kind: /^(?:sk_)?e2b_/.test(secret) ? 'key' : 'admin', secret }
}

export async function logIn(text: string): Promise<void> {
  const credential = credentialOf(text)
  if (credential.secret === '') throw new RestFailure(401, 'Paste an API key or the admin token.')
  session.set(await openSession(credential))
  sessionStorage.setItem(storageKey, JSON.stringify(credential))
}

/** Ends the session of a person for this whole browser, and forgets the key of this tab. */
export async function logOut(): Promise<void> {
  const isKey = !isPerson()
  const answer = isKey
    ? undefined
    : await ask<{ location?: string }>('/sign-out', { method: 'POST' }).catch(ended)
  forget()
  if (answer?.location !== undefined) location.assign(answer.location)
}

/** Somebody else may have ended it. */
function ended(error: unknown): undefined {
  if (!(error instanceof RestFailure) || error.status !== 401) throw error
}

/** The server knows this credential no more. */
export function forget(): void {
  sessionStorage.removeItem(storageKey)
  sessionStorage.removeItem(scopeKey)
  session.set(undefined)
}

/** What the provider is called with which people sign in; undefined: there is none. The page says so. */
export const signInLabel = (): string | undefined =>
  document.querySelector<HTMLMetaElement>('meta[name="warren-sign-in"]')?.content

/** Why the link that opened this page did not log in. */
let linkProblem = ''
export const problemOfLink = (): string => linkProblem

/** A link of `warren quickstart` has its code behind `#link=`. */
async function redeemLink(code: string): Promise<void> {
  const { key } = await ask<{ key: string }>('/dashboard-links/redeem', { body: { code }, headers: {} })
  await logIn(key)
}

/** The code leaves the address bar and the history before anything is asked. */
function takeLinkCode(): string | undefined {
  const code = /^#link=(.+)$/.exec(location.hash)?.[1]
  if (code !== undefined) history.replaceState(null, '', `${location.pathname}${location.search}`)
  return code
}

/** False: this tab has nobody logged in, or the key was revoked. */
export async function resume(): Promise<boolean> {
  const code = takeLinkCode()
  if (code !== undefined) {
    try {
      await redeemLink(code)
      return true
    } catch (error) {
      if (!(error instanceof RestFailure) || error.status < 400 || error.status >= 500) throw error
      linkProblem = error.message
    }
  }
  const stored = sessionStorage.getItem(storageKey)
  if (stored === null && signInLabel() === undefined) return false
  try {
    const credential = stored === null ? ({ kind: 'person' } as const) : (JSON.parse(stored) as Credential)
    session.set(await openSession(credential))
    return true
  } catch (error) {
    if (!(error instanceof RestFailure) || error.status !== 401) throw error
    forget()
    return false
  }
}

async function openSession(credential: Credential): Promise<Session> {
  if (credential.kind === 'person') return openPersonSession(credential)
  const { kind, secret } = credential
  const headers: Record<string, string> =
    kind === 'key' ? { 'X-API-Key': secret } : { 'X-Admin-Token': secret }
  const teams = await ask<KnownTeam[]>(kind === 'key' ? '/teams' : '/admin/teams', { headers })
  return { credential, teams, scope: kind === 'key' ? (teams[0]?.teamID ?? null) : storedScope(teams) }
}

async function openPersonSession(credential: Credential): Promise<Session> {
  const { person, teams: mine } = await ask<WhoIAm>('/me', { headers: {}, asPerson: true })
  const asOperator = { headers: {}, asPerson: true }
  const all: KnownTeam[] = person.isOperator ? await ask<Team[]>('/admin/teams', asOperator) : mine
  const [only] = all
  const isAlone = only !== undefined && all.length === 1 && !person.isOperator
  return { credential, person, teams: all, scope: isAlone ? only.teamID : storedScope(all) }
}

function storedScope(teams: readonly KnownTeam[]): string | null {
  const stored = sessionStorage.getItem(scopeKey)
  return teams.some(({ teamID }) => teamID === stored) ? stored : null
}

export async function reloadTeams(): Promise<void> {
  const current = session.get()
  if (current) session.set(await openSession(current.credential))
}
