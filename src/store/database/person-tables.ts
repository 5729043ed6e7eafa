/** The rows of people and of their roles in teams. */
import type { MembershipSource, Role } from '../../core/person/person.ts'

export type PersonRow = {
  id: string
  issuer: string | null
  subject: string | null
  email: string | null
  name: string
  is_operator: 0 | 1
  created_at: number
  last_sign_in_at: number | null
  removed_at: number | null
}

export type TeamMemberRow = {
  team_id: string
  person_id: string
  role: Role
  source: MembershipSource
  added_at: number
  added_by: string | null
}

export type SessionRow = {
  id: string
  person_id: string
  hash: string
  attempt_hash: string
  id_token_key: string | null
  id_token: string | null
  user_agent: string | null
  address: string | null
  created_at: number
  last_used_at: number
  expires_at: number
  ended_at: number | null
}
