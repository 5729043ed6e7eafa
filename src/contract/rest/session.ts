/** Who the caller is, and the sessions of people. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'
import { TeamLimits } from './team.ts'

const SignedInPerson = Type.Object({
  personID: Type.String(),
  name: Type.String(),
  email: Type.Union([Type.String(), Type.Null()]),
  isOperator: Type.Boolean({ description: 'Sees and does everything, like the admin token' }),
})

const RoleName = Type.Union([Type.Literal('owner'), Type.Literal('member'), Type.Literal('viewer')])

export const WhoIAm = Type.Object({
  person: SignedInPerson,
  sessionID: Type.String(),
  teams: Type.Array(
    Type.Object({
      teamID: Type.String(),
      slug: Type.String(),
      name: Type.String(),
      role: RoleName,
      limits: TeamLimits,
    }),
  ),
})
export type WhoIAm = Static<typeof WhoIAm>

export const OpenSession = Type.Object({
  sessionID: Type.String(),
  createdAt: DateTime,
  lastUsedAt: DateTime,
  expiresAt: DateTime,
  userAgent: Type.Union([Type.String(), Type.Null()]),
  address: Type.Union([Type.String(), Type.Null()]),
  isCurrent: Type.Boolean({ description: 'The request was made with it' }),
})
export type OpenSession = Static<typeof OpenSession>

export const SessionPath = Type.Object({ sessionID: Type.String() })

export const WhoseSessions = Type.Object({
  personID: Type.Optional(
    Type.String({ description: 'A member of a team of which the caller is an owner; unset: the caller' }),
  ),
})

export const SignedOut = Type.Object({
  location: Type.Optional(Type.String({ description: 'Where a browser signs out at the provider as well' })),
})
