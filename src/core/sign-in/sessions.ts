/** Sessions of people: who has one, until when, and how it ends. The role of a person is read for each request, never kept here. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Person } from '../person/person.ts'
import type { SealedValue } from '../secret/vault.ts'
import { sameSecret } from '../team/team.ts'
import { hashOf, isSessionTokenShaped, newSessionToken, type PersonSession } from './person-session.ts'
import type { SessionStore } from './session-store.ts'

/** A browser may call itself anything; this much of it is stored. */
const maxUserAgent = 200
const touchEveryMs = 60_000
/** An ended row proves that its sign-in was used, so it stays longer than a sign-in can take. */
const keepEndedMs = 24 * 3_600_000

type SessionLimits = { idleMs: number; lifetimeMs: number }

export type SessionOrigin = { userAgent: string | undefined; address: string | undefined }

export class SessionService {
  readonly #store: SessionStore
  readonly #clock: Clock
  readonly #limits: SessionLimits

  constructor(parts: { sessions: SessionStore; clock: Clock; limits: SessionLimits }) {
    this.#store = parts.sessions
    this.#clock = parts.clock
    this.#limits = parts.limits
  }

  get lifetimeMs(): number {
    return this.#limits.lifetimeMs
  }

  async open(
    { personID }: Person,
    { userAgent, address }: SessionOrigin,
    attempt: { hash: string; idToken: SealedValue | null },
  ): Promise<{ token: string; session: PersonSession }> {
    const token = newSessionToken()
    const now = this.#clock.now()
    const session: PersonSession = {
      sessionID: newUUID(),
      personID,
      createdAt: now,
      lastUsedAt: now,
      expiresAt: now + this.#limits.lifetimeMs,
      userAgent: userAgent?.slice(0, maxUserAgent) ?? null,
      address: address ?? null,
    }
    const { hash: attemptHash, idToken } = attempt
    const isNew = await this.#store.insert({ ...session, hash: hashOf(token), attemptHash, idToken })
    if (!isNew) throw new AppError('unauthenticated', 'This sign-in was used before: sign in again.')
    return { token, session }
  }

  async authenticate(token: string): Promise<{ session: PersonSession; person: Person }> {
    const over = () => new AppError('unauthenticated', 'Your session has ended: sign in again.')
    if (!isSessionTokenShaped(token)) throw over()
    const hash = hashOf(token)
    const found = await this.#store.findByHash(hash)
    if (!found || !sameSecret(found.hash, hash)) throw over()
    const { session, person } = found
    const now = this.#clock.now()
    if (!this.#isLive(session, now)) throw over()
    if (now - session.lastUsedAt > touchEveryMs) {
      // As with keys: a request must not fail because the time of use cannot be written.
      await this.#store.touch(session.sessionID, now).catch(() => {})
    }
    return { session, person }
  }

  async list(personID: string): Promise<PersonSession[]> {
    const now = this.#clock.now()
    return (await this.#store.list(personID)).filter((session) => this.#isLive(session, now))
  }

  async end(personID: string, sessionID: string): Promise<{ idToken: SealedValue | null }> {
    const ended = await this.#store.end(personID, sessionID, this.#clock.now())
    if (!ended) throw new AppError('not_found', `There is no live session ${sessionID}`)
    return ended
  }

  async prune(): Promise<void> {
    const now = this.#clock.now()
    const endedAt = now - keepEndedMs
    await this.#store.prune({ expiresAt: endedAt, usedAt: endedAt - this.#limits.idleMs, endedAt })
  }

  #isLive({ expiresAt, lastUsedAt }: PersonSession, now: number): boolean {
    return now < expiresAt && now - lastUsedAt < this.#limits.idleMs
  }
}
