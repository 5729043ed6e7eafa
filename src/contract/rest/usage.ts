/** What teams and their people used, by day. Warren's own. */
import { type Static, Type } from 'typebox'

const Day = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\d$', description: 'A day of UTC, as in 2026-11-20' })

export const UsageOfDaysQuery = Type.Object({
  from: Type.Optional(Day),
  to: Type.Optional(Day),
  by: Type.Optional(Type.Union([Type.Literal('team'), Type.Literal('person')])),
  format: Type.Optional(Type.Union([Type.Literal('json'), Type.Literal('csv')])),
})

const UsageOfDay = Type.Object({
  day: Day,
  teamID: Type.String(),
  personID: Type.Optional(
    Type.Union([Type.String(), Type.Null()], { description: 'Null: services and the operator' }),
  ),
  sandboxSeconds: Type.Number(),
  cpuSeconds: Type.Number({ description: 'CPUs that sandboxes had, times the seconds' }),
  memoryGiBSeconds: Type.Number({ description: 'Memory that sandboxes had, times the seconds' }),
  gpuSeconds: Type.Number(),
  sentBytes: Type.Number({ description: 'Bytes that sandboxes sent, to the internet and to clients' }),
  storedGiBSeconds: Type.Number({
    description: 'Space of sandboxes, snapshots and templates, times the seconds',
  }),
})
export type UsageOfDay = Static<typeof UsageOfDay>

const bound = Type.Union([Type.Number({ exclusiveMinimum: 0, maximum: 1e9 }), Type.Null()])
const TeamBudget = Type.Object({ cpuHours: bound, gpuHours: bound, sentGB: bound })
export const BudgetChanges = Type.Partial(TeamBudget, { additionalProperties: false, minProperties: 1 })

const UsedBudget = Type.Object({
  month: Type.String(),
  limits: TeamBudget,
  used: Type.Object({ cpuHours: Type.Number(), gpuHours: Type.Number(), sentGB: Type.Number() }),
  state: Type.Union([Type.Literal('within'), Type.Literal('nearly used'), Type.Literal('used up')]),
})
export type UsedBudget = Static<typeof UsedBudget>
export const BudgetAnswer = UsedBudget

const daysOfUsage = { from: Day, to: Day, days: Type.Array(UsageOfDay) }
export const UsageOfTeam = Type.Object({
  ...daysOfUsage,
  budget: Type.Union([UsedBudget, Type.Null()], { description: 'Null: the team has no budget' }),
})
export const UsageOfTeams = Type.Object(daysOfUsage)
export type UsageReport = Static<typeof UsageOfTeam>
