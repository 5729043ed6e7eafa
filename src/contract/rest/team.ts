/** Teams, keys and limits, as the operator's own surface shows them. */
import { type Static, Type } from 'typebox'
import { Role } from './person.ts'
import { DateTime, int64Max } from './shared.ts'

const PositiveInteger = Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 })

export const TeamLimits = Type.Object({
  maxSandboxes: PositiveInteger,
  maxCPU: PositiveInteger,
  maxMemoryMB: PositiveInteger,
  maxLifetimeHours: PositiveInteger,
  maxGPUs: Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }),
})

export const Team = Type.Object({
  teamID: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  createdAt: DateTime,
  limits: TeamLimits,
  olderClients: Type.Boolean({ description: 'Its clients may be older than access tokens' }),
})
export type Team = Static<typeof Team>

export const NewTeam = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, pattern: '^[^\\u0000]+$' }),
  slug: Type.Optional(Type.String()),
})

export const TeamChanges = Type.Object({ olderClients: Type.Boolean() }, { additionalProperties: false })

export const LimitChanges = Type.Partial(TeamLimits, { additionalProperties: false })

const KeyMask = Type.Object({
  prefix: Type.String(),
  valueLength: Type.Integer(),
  maskedValuePrefix: Type.String(),
  maskedValueSuffix: Type.String(),
})

export const ApiKey = Type.Object({
  id: Type.String(),
  name: Type.String(),
  mask: KeyMask,
  createdAt: DateTime,
  lastUsed: Type.Optional(DateTime),
  lastUsedFrom: Type.Optional(Type.String({ description: "The client's address at the last use" })),
  role: Role,
  madeBy: Type.Optional(Type.String({ description: 'Who made it, for people to read' })),
  createdBy: Type.Optional(
    Type.Object(
      { id: Type.String(), email: Type.String() },
      { description: 'The person whose key it is; absent in keys of services' },
    ),
  ),
  expiresAt: Type.Optional(DateTime),
})
export type ApiKey = Static<typeof ApiKey>

export const CreatedApiKey = Type.Object({ ...ApiKey.properties, key: Type.String() })

export const NewApiKey = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, pattern: '^[^\\u0000]+$' }),
})

export const NewGrantedKey = Type.Object({
  ...NewApiKey.properties,
  role: Type.Optional(Role),
  expiresAt: Type.Optional(DateTime),
  service: Type.Optional(
    Type.Boolean({ description: 'For a program: it stays when its maker leaves the team. Owners only' }),
  ),
})

export const CreatedLink = Type.Object({ code: Type.String(), expiresAt: DateTime })
export type CreatedLink = Static<typeof CreatedLink>

export const LinkCode = Type.Object(
  { code: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Of the address, after #link=' }) },
  { additionalProperties: false },
)

export const TeamPath = Type.Object({ teamID: Type.String() })
export const KeyPath = Type.Object({ teamID: Type.String(), keyID: Type.String() })

/** The team of an access token, with the API key that the command line keeps. */
export const OwnTeam = Type.Object({
  teamID: Type.String(),
  name: Type.String(),
  apiKey: Type.String(),
  isDefault: Type.Boolean(),
  slug: Type.Optional(Type.String({ description: 'Like the limits, an addition of Warren' })),
  limits: Type.Optional(TeamLimits),
  role: Type.Optional(Role),
})

export const OwnKeyPath = Type.Object({ keyID: Type.String() })
export const TokenPath = Type.Object({ tokenID: Type.String() })

export const CreatedAccessToken = Type.Object({
  id: Type.String(),
  name: Type.String(),
  token: Type.String(),
  mask: KeyMask,
  createdAt: DateTime,
})

const UnixSeconds = Type.Integer({ minimum: 0, maximum: int64Max, description: 'Unix time in seconds' })
export const UsageQuery = Type.Object({ start: Type.Optional(UnixSeconds), end: Type.Optional(UnixSeconds) })
export const HighestUsageQuery = Type.Object({
  ...UsageQuery.properties,
  metric: Type.Union([Type.Literal('concurrent_sandboxes'), Type.Literal('sandbox_start_rate')]),
})

export const TeamMetric = Type.Object({
  timestamp: DateTime,
  timestampUnix: Type.Integer(),
  concurrentSandboxes: Type.Integer(),
  sandboxStartRate: Type.Number({ description: 'Sandboxes that began to run, per second' }),
})
export const HighestTeamMetric = Type.Object({
  timestamp: DateTime,
  timestampUnix: Type.Integer(),
  value: Type.Number(),
})

export const TeamRemoval = Type.Object({
  force: Type.Optional(
    Type.Boolean({ description: 'Kill its sandboxes and delete its templates and snapshots first' }),
  ),
})
export const KillReport = Type.Object({ killedCount: Type.Integer(), failedCount: Type.Integer() })
export const CancelReport = Type.Object({ cancelledCount: Type.Integer(), failedCount: Type.Integer() })
export const RunningCounts = Type.Record(Type.String(), Type.Integer())
