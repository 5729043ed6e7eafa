/** People, and what each may do in a team. A person is known by the provider's issuer and subject, never by an e-mail address. */
import { AppError } from '../../lib/app-error.ts'

export type Person = {
  personID: string
  /** Both null: the person is invited and has not signed in yet. */
  issuer: string | null
  subject: string | null
  /** Lower case. Null: the provider says none, or has not verified it. */
  email: string | null
  name: string
  /** Sees and does everything, like the admin token. */
  isOperator: boolean
  createdAt: number
  lastSignInAt: number | null
  /** A removed person cannot sign in. */
  removedAt: number | null
}

/** From the weakest to the strongest: each may do what those before it may. */
const roles = ['viewer', 'member', 'owner'] as const
export type Role = (typeof roles)[number]

export const isRole = (text: string): text is Role => roles.some((role) => role === text)

export const atLeast = (role: Role, needed: Role): boolean => roles.indexOf(role) >= roles.indexOf(needed)

export const weakerOf = (one: Role, other: Role): Role => (atLeast(one, other) ? other : one)

/** Who made a person a member: somebody by hand, or a group of the provider at each sign-in. */
export type MembershipSource = 'manual' | 'provider'

export type TeamMember = {
  teamID: string
  person: Person
  role: Role
  source: MembershipSource
  addedAt: number
  /** Who added the member, for people to read. */
  addedBy: string | null
}

export type TeamRole = { teamID: string; role: Role }

export const maxMembersPerTeam = 1000

const emailForm = /^[^\s\p{Cc}@<>"',;]{1,64}@[^\s\p{Cc}@<>"',;]{1,189}$/u

export function parseEmail(text: string): string {
  const email = text.trim().toLowerCase()
  if (emailForm.test(email)) return email
  throw new AppError('invalid_argument', 'This is no e-mail address; give one such as ada@example.com')
}
