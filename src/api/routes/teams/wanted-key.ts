import type { Static } from 'typebox'
import type { NewGrantedKey } from '../../../contract/rest/team.ts'
import type { WantedKey } from '../../../core/team/key-grants.ts'

export const wantedKey = ({ role, expiresAt, service }: Static<typeof NewGrantedKey>): WantedKey => ({
  role,
  expiresAt: expiresAt === undefined ? undefined : Date.parse(expiresAt),
  service,
})
