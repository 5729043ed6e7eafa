/** Stored people, and their roles in teams. */
import type { Person, Role, TeamMember, TeamRole } from './person.ts'

/** What a provider says about somebody who signs in. */
export type SignInClaims = {
  issuer: string
  subject: string
  /** Null unless the provider has verified it: an invitation is adopted by it. */
  email: string | null
  name: string
  isOperator: boolean
  /** All memberships that the groups of the provider give, at most one of each team. */
  memberships: readonly TeamRole[]
}

/** Why the last owner of a team stays, or why nothing changed. */
export type MemberChange = 'changed' | 'absent' | 'last owner'

export interface PersonStore {
  /**
   * Finds the person of this issuer and subject, or makes one; an invited person with the same e-mail address is
   * adopted. Memberships from groups are replaced by those of the claims, and the keys of the person in teams that are
   * lost are revoked. Rejects with `permission_denied` if the person was removed.
   */
  signIn(claims: SignInClaims, at: number): Promise<Person>
  find(personID: string): Promise<Person | undefined>
  rolesOf(personID: string): Promise<TeamRole[]>
  roleIn(teamID: string, personID: string): Promise<Role | undefined>
}

export type NewMember = {
  teamID: string
  email: string
  role: Role
  addedBy: string
  at: number
  /** The ID of the person if nobody with this e-mail address has signed in yet. */
  personID: string
}

export interface MemberStore {
  /** Ordered by the time they were added. */
  list(teamID: string): Promise<TeamMember[]>
  /**
   * Adds the person with this e-mail address, or invites them. A membership from a group becomes a manual one.
   * Rejects with `already_exists` if they are a manual member, `conflict` if several people have the address,
   * `limit_reached` if the team is full, and `not_found` if there is no such team.
   */
  add(member: NewMember): Promise<TeamMember>
  /** One after another in each team, so that concurrent changes leave an owner. */
  setRole(teamID: string, personID: string, role: Role): Promise<MemberChange>
  /** Revokes the keys of the person in the team, too. */
  remove(teamID: string, personID: string, at: number): Promise<MemberChange>
}
