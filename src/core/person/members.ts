/** The members of teams: who may be added, changed and removed. */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { parseEmail, type Role, type TeamMember } from './person.ts'
import type { MemberChange, MemberStore } from './person-store.ts'

export class Members {
  readonly #members: MemberStore
  readonly #clock: Clock

  constructor(parts: { members: MemberStore; clock: Clock }) {
    this.#members = parts.members
    this.#clock = parts.clock
  }

  list(teamID: string): Promise<TeamMember[]> {
    return this.#members.list(teamID)
  }

  /** Who has never signed in is invited: the first sign-in with the address makes them the member. */
  add(teamID: string, { email, role, addedBy }: AddedMember): Promise<TeamMember> {
    const member = { teamID, email: parseEmail(email), role, addedBy }
    return this.#members.add({ ...member, at: this.#clock.now(), personID: newUUID() })
  }

  async setRole(teamID: string, personID: string, role: Role): Promise<void> {
    requireChanged(await this.#members.setRole(teamID, personID, role), personID)
  }

  async remove(teamID: string, personID: string): Promise<void> {
    requireChanged(await this.#members.remove(teamID, personID, this.#clock.now()), personID)
  }
}

type AddedMember = { email: string; role: Role; addedBy: string }

function requireChanged(change: MemberChange, personID: string): void {
  if (change === 'absent') throw new AppError('not_found', `The team has no member ${personID}`)
  if (change === 'last owner')
    throw new AppError('conflict', 'This is the last owner of the team: make another member an owner first')
}
