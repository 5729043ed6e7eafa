/** Secrets on the wire. A value goes in and never comes out. */
import { type Static, Type } from 'typebox'
import { DateTime, PageLimit } from './shared.ts'

const Metadata = Type.Record(Type.String(), Type.String(), {
  description: '32 entries at most; keys of 128 bytes, values of 1024, 8192 in total',
})
const Value = Type.String({
  description: 'Stored sealed, and used only in headers of requests that leave sandboxes',
})

export const Secret = Type.Object({
  secretID: Type.String(),
  name: Type.String(),
  currentVersion: Type.Integer(),
  metadata: Metadata,
  createdAt: DateTime,
  updatedAt: DateTime,
})
export type Secret = Static<typeof Secret>

export const NewSecret = Type.Object({
  name: Type.String({ description: "1 to 128 letters, digits, '-' and '_'; kept in lower case" }),
  value: Value,
  metadata: Type.Optional(Metadata),
})

export const SecretUpdate = Type.Object({
  value: Value,
  metadata: Type.Optional(Metadata),
})

export const SecretPath = Type.Object({ secretID: Type.String({ description: 'The id or the name' }) })

export const SecretQuery = Type.Object({
  limit: Type.Optional(PageLimit),
  nextToken: Type.Optional(Type.String()),
})
