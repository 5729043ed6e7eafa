/** Days of usage as answers: JSON, or a table for spreadsheets. */
import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import type { UsageOfDay, UsageOfDaysQuery } from '../../../contract/rest/usage.ts'
import { type DayUsage, dayMs, dayOf, sumByDay } from '../../../core/usage/usage.ts'
import { AppError } from '../../../lib/app-error.ts'

type AskedDays = { from: string; to: string; byPerson: boolean; isCsv: boolean }
type Bounds = {
  /** Days that one answer may have, by team and by person. */
  maxDays: { team: number; person: number }
}

const usualDays = 30

/** Both days are inclusive; the default is the last thirty. */
export function askedDays(
  query: Static<typeof UsageOfDaysQuery>,
  now: number,
  { maxDays }: Bounds,
): AskedDays {
  const to = query.to ?? dayOf(now)
  requireDay(to)
  const from = query.from ?? dayOf(Date.parse(to) - (usualDays - 1) * dayMs)
  requireDay(from)
  const by = query.by ?? 'team'
  if (from > to) throw new AppError('invalid_argument', `from (${from}) is after to (${to})`)
  const days = (Date.parse(to) - Date.parse(from)) / dayMs + 1
  if (days > maxDays[by])
    throw new AppError(
      'invalid_argument',
      `${days} days are too many: one answer has at most ${maxDays[by]} days by ${by}. Ask for a shorter time`,
    )
  return { from, to, byPerson: by === 'person', isCsv: query.format === 'csv' }
}

/** The pattern of the schema lets through days that no month has. */
function requireDay(day: string): void {
  const at = Date.parse(day)
  if (Number.isNaN(at) || dayOf(at) !== day)
    throw new AppError('invalid_argument', `'${day}' is no day: give one as in 2026-11-20`)
}

/** Rounded to milliseconds. */
const seconds = (ms: number): number => Math.round(ms) / 1000
const gibibyteSeconds = (mebibyteMs: number): number => Math.round(mebibyteMs / 1.024) / 1e6

export function presentDays(usage: readonly DayUsage[], byPerson: boolean): UsageOfDay[] {
  const asked = byPerson ? usage : sumByDay(usage.map((each) => ({ ...each, personID: null })))
  return asked.map(({ day, teamID, personID, ...amounts }) => ({
    day,
    teamID,
    ...(byPerson && { personID }),
    sandboxSeconds: seconds(amounts.runningMs),
    cpuSeconds: seconds(amounts.cpuMs),
    memoryGiBSeconds: gibibyteSeconds(amounts.memoryMBMs),
    gpuSeconds: seconds(amounts.gpuMs),
    sentBytes: amounts.sentBytes,
    storedGiBSeconds: gibibyteSeconds(amounts.storedMBMs),
  }))
}

const columns = [
  'day',
  'teamID',
  'personID',
  'sandboxSeconds',
  'cpuSeconds',
  'memoryGiBSeconds',
  'gpuSeconds',
  'sentBytes',
  'storedGiBSeconds',
] as const satisfies (keyof UsageOfDay)[]

/** Ids, days and numbers alone, none of which needs quotes. */
export function sendCsv(
  reply: Pick<FastifyReply, 'type' | 'header'>,
  days: readonly UsageOfDay[],
  { from, to, byPerson }: AskedDays,
): never {
  const shown = columns.filter((name) => byPerson || name !== 'personID')
  const lines = days.map((day) => shown.map((name) => day[name] ?? '').join(','))
  reply.type('text/csv; charset=utf-8')
  reply.header('content-disposition', `attachment; filename="usage-${from}-${to}.csv"`)
  // A text is sent as it is, and the schema of the answer is for JSON alone.
  return [shown.join(','), ...lines, ''].join('\r\n') as never
}
