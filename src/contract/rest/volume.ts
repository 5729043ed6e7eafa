/** Volumes on the wire, and the files in them. */
import { type Static, Type } from 'typebox'
import { DateTime, ErrorBody } from './shared.ts'

export const Volume = Type.Object({
  volumeID: Type.String(),
  name: Type.String(),
  createdAt: DateTime,
  sizeMB: Type.Integer({ description: 'Its capacity in MiB' }),
})
export type Volume = Static<typeof Volume>

export const VolumeAndToken = Type.Object({
  ...Volume.properties,
  token: Type.String({ description: 'Opens the content of this volume for an hour' }),
  domain: Type.Optional(Type.String({ description: 'The content is at api.DOMAIN' })),
})
export type VolumeAndToken = Static<typeof VolumeAndToken>

export const NewVolume = Type.Object({ name: Type.String({ pattern: '^[a-zA-Z0-9_-]+$', maxLength: 128 }) })
export const VolumePath = Type.Object({ volumeID: Type.String() })

const uint32 = (description: string, max = 2 ** 32 - 1) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: max, description }))
const owner = {
  uid: uint32('Its user, as sandboxes see it; 1000 for what is new'),
  gid: uint32('Its group; 1000 for what is new'),
  mode: uint32('Its permissions', 0o7777),
}

export const EntryQuery = Type.Object({ path: Type.String({ minLength: 1 }) })
export const ListQuery = Type.Object({
  ...EntryQuery.properties,
  depth: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 32 - 1, default: 1 })),
})
export const WriteQuery = Type.Object({
  ...EntryQuery.properties,
  ...owner,
  force: Type.Optional(
    Type.Boolean({ default: false, description: 'Also make parent folders; also replace a file' }),
  ),
})
export const EntryChange = Type.Object(owner)

export const VolumeEntryStat = Type.Object({
  name: Type.String(),
  type: Type.Union([
    Type.Literal('unknown'),
    Type.Literal('file'),
    Type.Literal('directory'),
    Type.Literal('symlink'),
  ]),
  path: Type.String(),
  size: Type.Integer(),
  mode: Type.Integer(),
  uid: Type.Integer(),
  gid: Type.Integer(),
  atime: DateTime,
  mtime: DateTime,
  ctime: DateTime,
  target: Type.Optional(Type.String({ description: 'Where a symbolic link leads' })),
})
export type VolumeEntryStat = Static<typeof VolumeEntryStat>

/** Here the code is a text. */
const ContentError = Type.Object({ ...ErrorBody.properties, code: Type.String() })
export const contentFailures = { '4xx': ContentError, '5xx': ContentError } as const
