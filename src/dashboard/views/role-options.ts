import type { NeededRole } from '../browser/session.ts'

/** From the weakest to the strongest. */
export const roleOptions: readonly (readonly [NeededRole, string])[] = [
  ['viewer', 'Viewer: sees, changes nothing'],
  ['member', 'Member: works with all that the team has'],
  ['owner', 'Owner: also members, all keys and the audit'],
]
