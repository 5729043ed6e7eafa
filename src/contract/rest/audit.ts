/** The audit: who changed what. */
import { type Static, Type } from 'typebox'
import { DateTime, PageLimit } from './shared.ts'

export const AuditEntry = Type.Object({
  id: Type.String(),
  at: DateTime,
  teamID: Type.Optional(Type.String()),
  personID: Type.Optional(Type.String()),
  person: Type.Optional(Type.String({ description: "The person's e-mail address or name" })),
  credential: Type.String({ description: 'api key, access token, session, admin token or none' }),
  credentialID: Type.Optional(Type.String()),
  address: Type.String({ description: "The client's address" }),
  action: Type.String({ description: 'Such as sandbox.create' }),
  object: Type.Optional(Type.String({ description: 'The ID or name of what it was about' })),
  requestID: Type.String(),
  status: Type.Optional(
    Type.Integer({
      description: 'Of the answer; absent if the change was made and the server ended before it answered',
    }),
  ),
})
export type AuditEntry = Static<typeof AuditEntry>

const text = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }))

const filters = {
  person: text("A person's ID or e-mail address"),
  action: text('An action, or all that begin with it if it ends with a dot, such as key.'),
  object: text('The ID or name of an object'),
  from: Type.Optional(DateTime),
  to: Type.Optional(DateTime),
  limit: Type.Optional(PageLimit),
  nextToken: Type.Optional(Type.String()),
  orderAsc: Type.Optional(Type.Boolean()),
  follow: Type.Optional(
    Type.Boolean({ description: 'Answers with new entries as they are made, one JSON object in each line' }),
  ),
}
export const AuditQuery = Type.Object(filters)
export const AllAuditQuery = Type.Object({ ...filters, team: text("A team's ID") })
