/** Pause, resume, fork and snapshot on the wire. */
import { type Static, Type } from 'typebox'
import { Sandbox } from './sandbox.ts'
import { bodyOrNone, DateTime, PageLimit, Seconds } from './shared.ts'

export const Pause = bodyOrNone(
  Type.Object({
    memory: Type.Optional(Type.Boolean({ description: 'False keeps the files only' })),
    requireHealthyGuest: Type.Optional(
      Type.Boolean({ description: 'True refuses the pause when the agent inside does not answer' }),
    ),
  }),
)

export const Resume = bodyOrNone(
  Type.Object({
    timeout: Type.Optional(Seconds),
    autoPause: Type.Optional(
      Type.Boolean({ description: 'Kept for old clients: it stays as it was created' }),
    ),
    memory: Type.Optional(Type.Boolean({ description: 'False boots from the files' })),
  }),
)

export const Fork = bodyOrNone(
  Type.Object({
    timeout: Type.Optional(Seconds),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  }),
)

export const ForkResult = Type.Object({
  sandbox: Type.Optional(Sandbox),
  error: Type.Optional(Type.Object({ code: Type.Integer(), message: Type.String() })),
})

export const NewSnapshot = Type.Object({
  name: Type.Optional(Type.String({ description: '[namespace/]name[:tag]' })),
  memory: Type.Optional(Type.Boolean({ description: 'False keeps the files only' })),
})

export const Snapshot = Type.Object({ snapshotID: Type.String(), names: Type.Array(Type.String()) })

export const ListedSnapshot = Type.Object({
  ...Snapshot.properties,
  createdAt: DateTime,
  sandboxID: Type.String({ description: 'The sandbox that it was taken of; it may have ended' }),
  cpuCount: Type.Integer({ description: 'Of a sandbox that starts from it, like the following' }),
  memoryMB: Type.Integer(),
  diskSizeMB: Type.Integer(),
})
export type ListedSnapshot = Static<typeof ListedSnapshot>

export const SnapshotQuery = Type.Object({
  sandboxID: Type.Optional(Type.String({ description: 'Only snapshots of this sandbox' })),
  name: Type.Optional(Type.String({ description: 'A name or an id, with or without a tag' })),
  limit: Type.Optional(PageLimit),
  nextToken: Type.Optional(Type.String()),
})

export const TemplatePath = Type.Object({ templateID: Type.String() })
