/** Teams, keys and limits, as the operator's own surface shows them. */
import { type Static, Type } from 'typebox'
import { DateTime } from './shared.ts'

const PositiveInteger = Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 })

export const TeamLimits = Type.Object({
  maxSandboxes: PositiveInteger,
  maxCPU: PositiveInteger,
  maxMemoryMB: PositiveInteger,
  maxLifetimeHours: PositiveInteger,
})

export const Team = Type.Object({
  teamID: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  createdAt: DateTime,
  limits: TeamLimits,
})
export type Team = Static<typeof Team>

export const NewTeam = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, pattern: '^[^\\u0000]+$' }),
  slug: Type.Optional(Type.String()),
})

export const LimitChanges = Type.Partial(TeamLimits, { additionalProperties: false })

export const KeyMask = Type.Object({
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
})
export type ApiKey = Static<typeof ApiKey>

export const CreatedApiKey = Type.Object({ ...ApiKey.properties, key: Type.String() })

export const NewApiKey = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 128, pattern: '^[^\\u0000]+$' }),
})

export const TeamPath = Type.Object({ teamID: Type.String() })
export const KeyPath = Type.Object({ teamID: Type.String(), keyID: Type.String() })
