/** Stored sessions of people. */
import type { Person } from '../person/person.ts'
import type { SealedValue } from '../secret/vault.ts'
import type { PersonSession } from './person-session.ts'

export type NewSession = PersonSession & {
  /** Of the token. */
  hash: string
  /** Identifies the sign-in that makes the session; each makes at most one. */
  attemptHash: string
  /** What the provider wants to see when the person signs out; null if it is too long to keep. */
  idToken: SealedValue | null
}

export interface SessionStore {
  /** False if a session was made of this attempt before, also if that session has ended. */
  insert(session: NewSession): Promise<boolean>
  /** The session with this hash that has not been ended, with its person, unless the person was removed. */
  findByHash(hash: string): Promise<{ session: PersonSession; hash: string; person: Person } | undefined>
  touch(sessionID: string, at: number): Promise<void>
  /** Those that have not been ended, latest use first. */
  list(personID: string): Promise<PersonSession[]>
  /** The ID token of the session that this call ended; undefined if the person has no such session that had not ended before. */
  end(personID: string, sessionID: string, at: number): Promise<{ idToken: SealedValue | null } | undefined>
  /** Removes sessions that expired, were last used or were ended before. */
  prune(before: { expiresAt: number; usedAt: number; endedAt: number }): Promise<void>
}
