/** What a key that was found allows at this moment. */
import type { AppError } from '../../lib/app-error.ts'
import { type Person, type Role, weakerOf } from '../person/person.ts'
import type { ApiKey, FoundKey } from './team.ts'
import type { KeyStore } from './team-store.ts'

const touchEveryMs = 60_000

/**
 * A person's key allows what the person may do in the team now, so that a change of the role takes effect at once, and
 * nothing once the person has left.
 */
export function grantedBy(
  { key, person, memberRole }: FoundKey,
  now: number,
  invalid: (detail: string) => AppError,
): { role: Role; person: Person | null } {
  if (key.expiresAt !== null && key.expiresAt <= now)
    throw invalid(`it ended at ${new Date(key.expiresAt).toISOString()}`)
  if (key.personID === null) return { role: key.role, person: null }
  const isGone = person === null || person.removedAt !== null
  const current = isGone ? null : (memberRole ?? (person.isOperator ? 'owner' : null))
  if (current === null) throw invalid('the person it belongs to is no longer a member of the team')
  return { role: weakerOf(key.role, current), person }
}

/**
 * Records the use of a key, at most once a minute. No request waits for that, or fails because it cannot be written, for
 * instance on a full disk.
 */
export function touch(
  keys: Pick<KeyStore, 'touchKey'>,
  { keyID, lastUsedAt }: ApiKey,
  { now, from }: { now: number; from: string | null },
): void {
  if (now - (lastUsedAt ?? 0) > touchEveryMs) keys.touchKey(keyID, now, from).catch(() => {})
}
