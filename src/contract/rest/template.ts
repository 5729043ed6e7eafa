/** Templates and their builds on the wire. */
import { type Static, Type } from 'typebox'
import { LogLevel, Milliseconds } from './logs.ts'
import { bodyOrNone, DateTime, optionalOrNull, PageLimit, PlainText } from './shared.ts'

export const BuildStatus = Type.Union([
  Type.Literal('waiting'),
  Type.Literal('building'),
  Type.Literal('ready'),
  Type.Literal('error'),
])
const count = { minimum: 0, maximum: 2 ** 31 - 1 }
export const CpuCount = Type.Integer({ ...count, minimum: 1 })
export const MemoryMB = Type.Integer({ ...count, minimum: 128 })
const gpus = { minimum: 0, maximum: 16, description: 'An addition of Warren: the GPUs of each sandbox' }

const Tags = Type.Array(Type.String(), { maxItems: 100 })

export const NewTemplate = Type.Object({
  name: Type.Optional(Type.String({ description: '[namespace/]name[:tag]' })),
  tags: Type.Optional(Tags),
  alias: Type.Optional(Type.String({ description: 'Deprecated: use name' })),
  teamID: Type.Optional(Type.String({ description: 'Deprecated: the key tells' })),
  cpuCount: Type.Optional(CpuCount),
  memoryMB: Type.Optional(MemoryMB),
  minFreeDiskMb: Type.Optional(Type.Integer(count)),
  gpuCount: Type.Optional(Type.Integer(gpus)),
})

export const RequestedTemplate = Type.Object({
  templateID: Type.String(),
  buildID: Type.String(),
  public: Type.Boolean(),
  names: Type.Array(Type.String()),
  tags: Type.Array(Type.String()),
  aliases: Type.Array(Type.String(), { description: 'Deprecated: use names' }),
})

export type NewTemplate = Static<typeof NewTemplate>
export type RequestedTemplate = Static<typeof RequestedTemplate>

export const NewTemplateV2 = Type.Object({
  alias: Type.String(),
  teamID: Type.Optional(Type.String()),
  cpuCount: Type.Optional(CpuCount),
  memoryMB: Type.Optional(MemoryMB),
})

const largestDockerfile = 64 * 1024

export const NewTemplateV1 = Type.Object({
  dockerfile: Type.String({
    maxLength: largestDockerfile,
    description: 'Without COPY of files: a request of this form carries none',
  }),
  alias: Type.Optional(Type.String()),
  teamID: Type.Optional(Type.String()),
  startCmd: Type.Optional(Type.String()),
  readyCmd: Type.Optional(Type.String()),
  cpuCount: Type.Optional(CpuCount),
  memoryMB: Type.Optional(MemoryMB),
  gpuCount: Type.Optional(Type.Integer(gpus)),
})
export type NewTemplateV1 = Static<typeof NewTemplateV1>

const legacy = {
  templateID: Type.String(),
  buildID: Type.String({ description: 'Of the last build that succeeded; zeros when none has' }),
  cpuCount: Type.Integer(),
  memoryMB: Type.Integer(),
  diskSizeMB: Type.Integer(),
  gpuCount: Type.Optional(Type.Integer({ description: 'An addition of Warren; missing: none' })),
  public: Type.Boolean(),
  aliases: Type.Array(Type.String(), { description: 'Deprecated: use names' }),
  createdAt: DateTime,
  updatedAt: DateTime,
  createdBy: Type.Union([
    Type.Null(),
    Type.Object({ id: Type.String(), email: Type.Union([Type.String(), Type.Null()]) }),
  ]),
  lastSpawnedAt: Type.Union([DateTime, Type.Null()]),
  spawnCount: Type.Integer(),
  buildCount: Type.Integer(),
  envdVersion: Type.String(),
}
export const TemplateLegacy = Type.Object(legacy)
export type TemplateLegacy = Static<typeof TemplateLegacy>
export const Template = Type.Object({
  ...legacy,
  names: Type.Array(Type.String()),
  buildStatus: BuildStatus,
  isDefault: Type.Optional(Type.Boolean({ description: 'True for templates that every team has' })),
})
export type Template = Static<typeof Template>

export const TemplateBuild = Type.Object({
  buildID: Type.String(),
  status: BuildStatus,
  createdAt: DateTime,
  updatedAt: DateTime,
  finishedAt: Type.Optional(DateTime),
  cpuCount: Type.Integer(),
  memoryMB: Type.Integer(),
  diskSizeMB: Type.Optional(Type.Integer()),
  gpuCount: Type.Optional(Type.Integer({ description: 'An addition of Warren; missing: none' })),
  envdVersion: Type.Optional(Type.String()),
})
export type TemplateBuild = Static<typeof TemplateBuild>
export const TemplateWithBuilds = Type.Object({ ...Template.properties, builds: Type.Array(TemplateBuild) })

const Credentials = Type.Union([
  Type.Object({ type: Type.Literal('registry'), username: Type.String(), password: Type.String() }),
  Type.Object({
    type: Type.Literal('aws'),
    awsAccessKeyId: Type.String(),
    awsSecretAccessKey: Type.String(),
    awsRegion: Type.String(),
  }),
  Type.Object({ type: Type.Literal('gcp'), serviceAccountJson: Type.String() }),
])
export type Credentials = Static<typeof Credentials>

export const StartBuild = Type.Object({
  fromImage: optionalOrNull(PlainText),
  fromTemplate: optionalOrNull(PlainText),
  fromImageRegistry: optionalOrNull(Credentials),
  startCmd: optionalOrNull(PlainText),
  readyCmd: optionalOrNull(PlainText),
  force: Type.Optional(Type.Boolean()),
  steps: Type.Optional(
    Type.Array(
      Type.Object({
        type: Type.String(),
        args: optionalOrNull(Type.Array(PlainText)),
        filesHash: optionalOrNull(Type.String()),
        force: optionalOrNull(Type.Boolean()),
      }),
      { maxItems: 1000 },
    ),
  ),
})
export type StartBuild = Static<typeof StartBuild>

export const BuildLogEntry = Type.Object({
  timestamp: DateTime,
  message: Type.String(),
  level: LogLevel,
  step: Type.Optional(Type.String()),
})
export type BuildLogEntry = Static<typeof BuildLogEntry>

export const BuildStatusAnswer = Type.Object({
  templateID: Type.String(),
  buildID: Type.String(),
  status: BuildStatus,
  logs: Type.Array(Type.String(), { description: 'Deprecated: use logEntries' }),
  logEntries: Type.Array(BuildLogEntry),
  reason: Type.Optional(
    Type.Object({
      message: Type.String(),
      step: Type.Optional(Type.String()),
      logEntries: Type.Array(BuildLogEntry),
    }),
  ),
})

export type BuildStatusAnswer = Static<typeof BuildStatusAnswer>

export const BuildPath = Type.Object({ templateID: Type.String(), buildID: Type.String() })
export const FilesPath = Type.Object({ templateID: Type.String(), hash: Type.String() })
export const FilesAnswer = Type.Object({ present: Type.Boolean(), url: Type.Optional(Type.String()) })
export type FilesAnswer = Static<typeof FilesAnswer>
export const StatusQuery = Type.Object({
  logsOffset: Type.Optional(Type.Integer(count)),
  limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
  level: Type.Optional(LogLevel),
})
export type StatusQuery = Static<typeof StatusQuery>
export const BuildLogsQuery = Type.Object({
  cursor: Type.Optional(Milliseconds),
  limit: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
  direction: Type.Optional(Type.Enum(['forward', 'backward'])),
  level: Type.Optional(LogLevel),
  source: Type.Optional(Type.Enum(['temporary', 'persistent'])),
})
export const BuildLogs = Type.Object({ logs: Type.Array(BuildLogEntry) })
export const TemplatesQuery = Type.Object({
  teamID: Type.Optional(Type.String()),
  limit: Type.Optional(PageLimit),
  nextToken: Type.Optional(Type.String()),
})
export const PageQuery = Type.Object({
  limit: Type.Optional(PageLimit),
  nextToken: Type.Optional(Type.String()),
})
export const PatchTemplate = bodyOrNone(Type.Object({ public: Type.Optional(Type.Boolean()) }))
export const Names = Type.Object({ names: Type.Array(Type.String()) })
export const AliasPath = Type.Object({ alias: Type.String() })
export const AliasAnswer = Type.Object({ templateID: Type.String(), public: Type.Boolean() })
export const AssignTags = Type.Object({ target: Type.String(), tags: Tags })
export const RemoveTags = Type.Object({ name: Type.String(), tags: Tags })
export const AssignedTags = Type.Object({ tags: Type.Array(Type.String()), buildID: Type.String() })
export const TagList = Type.Array(
  Type.Object({ tag: Type.String(), buildID: Type.String(), createdAt: DateTime }),
)
