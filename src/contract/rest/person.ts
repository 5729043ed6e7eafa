/** People and their roles in teams. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'

export const Role = Type.Union([Type.Literal('viewer'), Type.Literal('member'), Type.Literal('owner')], {
  description: 'From the weakest to the strongest: each may do what those before it may',
})

export const Member = Type.Object({
  personID: Type.String(),
  name: Type.String(),
  email: Type.Optional(Type.String()),
  role: Role,
  source: Type.Union([Type.Literal('manual'), Type.Literal('provider')], {
    description: "Added by hand, or by a group of the provider at the person's sign-in",
  }),
  hasSignedIn: Type.Boolean({ description: 'False: the person is invited' }),
  lastSignInAt: Type.Optional(DateTime),
  addedAt: DateTime,
  addedBy: Type.Optional(Type.String()),
})
export type Member = Static<typeof Member>

export const NewMember = Type.Object(
  { email: Type.String({ maxLength: 254 }), role: Role },
  { additionalProperties: false },
)
export const MemberChanges = Type.Object({ role: Role }, { additionalProperties: false })
export const MemberPath = Type.Object({ teamID: Type.String(), personID: Type.String() })
