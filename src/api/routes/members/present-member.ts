import type { Member } from '../../../contract/rest/person.ts'
import type { TeamMember } from '../../../core/person/person.ts'
import { dateTime } from '../../present.ts'

export function presentMember({ person, role, source, addedAt, addedBy }: TeamMember): Member {
  const { personID, name, email, issuer, lastSignInAt } = person
  return {
    personID,
    name,
    ...(email !== null && { email }),
    role,
    source,
    hasSignedIn: issuer !== null,
    ...(lastSignInAt !== null && { lastSignInAt: dateTime(lastSignInAt) }),
    addedAt: dateTime(addedAt),
    ...(addedBy !== null && { addedBy }),
  }
}
