/** What the keys that a caller makes may allow: never more than the caller may do. */
import { AppError } from '../../lib/app-error.ts'
import { atLeast, type Role } from '../person/person.ts'
import type { ApiKey, Caller, KeyGrant } from './team.ts'

export type WantedKey = {
  /** The caller's own if none is given. */
  role?: Role | undefined
  /** Never, or when the caller's own key ends, if none is given. */
  expiresAt?: number | undefined
  /** It is for a program, and stays when the caller leaves the team. */
  service?: boolean | undefined
}

/** Rejects what would outlive or exceed the caller. */
export function grantFor(caller: Caller, wanted: WantedKey, now: number): KeyGrant {
  const { person, credential } = caller
  const isService = person === null || wanted.service === true
  if (isService && caller.role !== 'owner') {
    throw new AppError(
      'permission_denied',
      person
        ? "Only an owner of the team makes keys for services: leave out 'service' to make a key of your own"
        : 'A key of a service makes keys only with the role owner: use a key of your own, or ask an owner',
    )
  }
  const role = wanted.role ?? caller.role
  if (!atLeast(caller.role, role)) {
    const message = `A key cannot have the role '${role}': yours in the team is '${caller.role}'`
    throw new AppError('permission_denied', message)
  }
  return {
    role,
    personID: isService ? null : person.personID,
    madeBy: labelOf(caller),
    expiresAt: endOf(wanted.expiresAt ?? credential.expiresAt, credential.expiresAt, now),
  }
}

/** The operator makes keys for services only. */
export const operatorGrant = (
  { role = 'owner', expiresAt }: Omit<WantedKey, 'service'>,
  now: number,
): KeyGrant => ({
  role,
  personID: null,
  madeBy: 'admin token',
  expiresAt: endOf(expiresAt ?? null, null, now),
})

function endOf(expiresAt: number | null, latest: number | null, now: number): number | null {
  if (expiresAt === null) return null
  if (expiresAt <= now) throw new AppError('invalid_argument', 'expiresAt is in the past; give a later time')
  if (latest === null || expiresAt <= latest) return expiresAt
  const end = new Date(latest).toISOString()
  throw new AppError('permission_denied', `A key ends no later than the one it is made with, at ${end}`)
}

/** Names a caller for people who read a list. */
export function labelOf({ person, credential }: Caller): string {
  if (person) return person.email ?? person.name
  return credential.id === null ? credential.kind : `${credential.kind} ${credential.id}`
}

/** Undefined for owners, who see and revoke all keys of the team. */
export type KeyScope = { personID: string | null; keyID: string | null } | undefined

export const scopeOf = ({ role, person, credential }: Caller): KeyScope =>
  role === 'owner' ? undefined : { personID: person?.personID ?? null, keyID: credential.id }

export const isInScope = (key: ApiKey, scope: KeyScope): boolean =>
  scope === undefined ||
  key.keyID === scope.keyID ||
  (key.personID !== null && key.personID === scope.personID)
