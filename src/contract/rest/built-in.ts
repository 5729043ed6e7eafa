import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'
import { BuildStatus } from './template.ts'

export const BuiltInPath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }) })
export const BuiltInRequest = Type.Object({
  full: Type.Optional(Type.Boolean({ description: 'With everything that the template can hold' })),
})
export type BuiltInRequest = Static<typeof BuiltInRequest>
export const BuiltInAnswer = Type.Object({
  templateID: Type.String(),
  buildID: Type.String(),
  note: Type.Optional(Type.String({ description: 'How large it is, how long it takes, what to know of it' })),
})
export type BuiltInAnswer = Static<typeof BuiltInAnswer>

export const BuiltInTemplate = Type.Object({
  name: Type.String({ description: 'The name to build it by' }),
  alias: Type.String({ description: 'The name to create a sandbox by' }),
  about: Type.String(),
  cpuCount: Type.Integer(),
  memoryMB: Type.Integer(),
  diskSizeMB: Type.Integer(),
  gpuCount: Type.Optional(Type.Integer()),
  note: Type.Optional(Type.String({ description: 'How large it is, and what to know of it' })),
  seconds: Type.Optional(
    Type.Integer({
      description: 'About how long the build takes; missing: the server makes it at its start',
    }),
  ),
  ready: Type.Boolean({ description: 'Sandboxes can start from it' }),
  build: Type.Optional(
    Type.Object(
      {
        templateID: Type.String(),
        buildID: Type.String(),
        status: BuildStatus,
        createdAt: DateTime,
        finishedAt: Type.Optional(DateTime),
        reason: Type.Optional(Type.String({ description: 'Why it failed' })),
      },
      { description: 'The newest build; missing: nobody has built it' },
    ),
  ),
})
export type BuiltInTemplate = Static<typeof BuiltInTemplate>
