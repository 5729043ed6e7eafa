/**
 * Signs people in: sends a browser to the provider, checks what it brings back, and opens a session. What belongs to one attempt is
 * sealed in a cookie of the browser, so that no other browser can finish it, any node can, and a stranger who begins attempts
 * writes nothing here.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Person, Role } from '../person/person.ts'
import type { PersonStore } from '../person/person-store.ts'
import type { SealedValue, SecretVault } from '../secret/vault.ts'
import { sameSecret } from '../team/team.ts'
import type { TeamStore } from '../team/team-store.ts'
import { type GroupRule, grantsOf } from './group-rules.ts'
import { type IdentitySettings, identityOf } from './identity.ts'
import type { IdentityProvider, LoginAttempt } from './identity-provider.ts'
import { isOwnPath } from './own-path.ts'
import { hashOf } from './person-session.ts'
import type { SessionOrigin, SessionService } from './sessions.ts'

/** How long a person may take at the provider. */
export const attemptLifetimeMs = 15 * 60_000
/** A longer ID token is not kept: the provider then asks whom it is to sign out. */
const maxIDToken = 8192

type SignInSettings = IdentitySettings & { rules: readonly GroupRule[] }

type SignInParts = {
  provider: IdentityProvider
  people: Pick<PersonStore, 'signIn' | 'rolesOf'>
  teams: Pick<TeamStore, 'findTeam'>
  sessions: SessionService
  vault: SecretVault
  clock: Clock
  log: Log
  settings: SignInSettings
}

type SealedAttempt = LoginAttempt & { issuer: string; returnTo: string; endsAt: number }

const attemptPlace = {
  identity: ['sign-in attempt'],
  name: 'The sign-in',
  remedy: 'sign in again',
}

const tokenPlace = (personID: string) => ({
  identity: ['id token', personID],
  name: 'The ID token of a session',
  remedy: 'sign out',
})

export class SignIn {
  readonly #parts: SignInParts

  constructor(parts: SignInParts) {
    this.#parts = parts
  }

  /** Where to send the browser, and what it must bring back in its cookie. */
  async begin(returnTo: string): Promise<{ url: string; cookie: string }> {
    const { provider, vault, clock } = this.#parts
    const attempt = { state: randomHex(32), nonce: randomHex(32), verifier: randomHex(32) }
    const url = await provider.loginURL(attempt)
    const sealed: SealedAttempt = {
      ...attempt,
      issuer: provider.issuer,
      returnTo: isOwnPath(returnTo) ? returnTo : '/dashboard',
      endsAt: clock.now() + attemptLifetimeMs,
    }
    const { keyID, sealed: text } = vault.seal(attemptPlace, JSON.stringify(sealed))
    return { url, cookie: `${keyID}.${text}` }
  }

  async finish(
    query: string,
    cookie: string | undefined,
    origin: SessionOrigin,
  ): Promise<{ token: string; person: Person; sessionID: string; returnTo: string }> {
    const { provider, sessions, vault, settings } = this.#parts
    const attempt = this.#openAttempt(cookie)
    const state = new URLSearchParams(query).get('state') ?? ''
    if (!attempt || !sameSecret(state, attempt.state)) {
      throw new AppError(
        'unauthenticated',
        'This sign-in was not begun in this browser, or took longer than 15 minutes: sign in again.',
      )
    }
    const { subject, claims, idToken } = await provider.redeem(query, attempt)
    const identity = identityOf(subject, claims, settings)
    const person = await this.#admit(subject, identity)
    const sealed = idToken.length > maxIDToken ? null : vault.seal(tokenPlace(person.personID), idToken)
    const hash = hashOf(attempt.state)
    const { token, session } = await sessions.open(person, origin, { hash, idToken: sealed })
    return { token, person, sessionID: session.sessionID, returnTo: attempt.returnTo }
  }

  /** Ends the session. Returns where the browser signs out at the provider, if the provider has such a page and answers. */
  async signOut({ personID }: Person, sessionID: string): Promise<string | undefined> {
    const { provider, sessions, log } = this.#parts
    const { idToken } = await sessions.end(personID, sessionID)
    try {
      return await provider.logoutURL(this.#openToken(personID, idToken))
    } catch (error) {
      log.warn({ err: error }, 'A person signed out here, and stays signed in at the provider.')
      return undefined
    }
  }

  /** Rejects if the person is in no team and no operator: a session would open nothing. */
  async #admit(
    subject: string,
    { email, name, groups }: { email: string | null; name: string; groups: readonly string[] },
  ): Promise<Person> {
    const { provider, people, clock, settings } = this.#parts
    const { isOperator, roles } = grantsOf(groups, settings.rules)
    const memberships = await this.#membershipsOf(roles)
    const { issuer } = provider
    const person = await people.signIn({ issuer, subject, email, name, isOperator, memberships }, clock.now())
    if (person.isOperator || (await people.rolesOf(person.personID)).length > 0) return person
    const known = email ?? `${name} (no verified e-mail address)`
    throw new AppError(
      'permission_denied',
      `You are signed in at the provider as ${known}, but are in no team of this Warren. Ask an owner of a team to add you.`,
    )
  }

  async #membershipsOf(granted: ReadonlyMap<string, Role>): Promise<{ teamID: string; role: Role }[]> {
    const memberships: { teamID: string; role: Role }[] = []
    for (const [slug, role] of granted) {
      const team = await this.#parts.teams.findTeam(slug)
      if (team) memberships.push({ teamID: team.teamID, role })
      else this.#parts.log.warn({ team: slug }, 'WARREN_OIDC_GROUPS names a team that does not exist.')
    }
    return memberships
  }

  #openAttempt(cookie: string | undefined): SealedAttempt | undefined {
    const { vault, clock, provider } = this.#parts
    const [, keyID = '', sealed = ''] = /^([0-9a-f]{16})\.([\w+/=]{1,4000})$/.exec(cookie ?? '') ?? []
    try {
      const attempt = JSON.parse(vault.open(attemptPlace, { keyID, sealed })) as SealedAttempt
      return attempt.endsAt > clock.now() && attempt.issuer === provider.issuer ? attempt : undefined
    } catch {
      return undefined
    }
  }

  #openToken(personID: string, sealed: SealedValue | null): string | undefined {
    return sealed === null ? undefined : this.#parts.vault.open(tokenPlace(personID), sealed)
  }
}
