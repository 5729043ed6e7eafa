/** What a team used by day: charts, a table, a file for spreadsheets, and what is left of the budget. */
import { useMemo, useState } from 'preact/hooks'
import type { UsageOfDay, UsageReport, UsedBudget } from '../../contract/rest/usage.ts'
import { bytes } from '../browser/format.ts'
import { now, useLive } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { saveBlob } from '../browser/save-blob.ts'
import type { KnownTeam } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { Chart } from '../parts/chart.tsx'
import { Choice } from '../parts/fields.tsx'
import { Figure } from '../parts/figure.tsx'
import { Card, Loaded, Table } from '../parts/layout.tsx'

const everyMs = 60_000
const daySeconds = 86_400
const gibibyte = 2 ** 30
/** The server gives so many days by team, and a month by person. */
const ranges = { '30d': 30, '90d': 90, '365d': 365 } as const
type Range = keyof typeof ranges | 'people'
type Member = { personID: string; name?: string; email?: string | null }

export function UsageByDay({ team: { teamID, slug } }: { team: KnownTeam }) {
  const [range, setRange] = useState<Range>('30d')
  const isOfPeople = range === 'people'
  const live = useLive(
    `days ${teamID} ${range}`,
    async (signal) => {
      const days = isOfPeople ? ranges['30d'] : ranges[range]
      const from = new Date(now() - (days - 1) * 1000 * daySeconds).toISOString().slice(0, 10)
      const path = `/teams/${teamID}/usage?from=${from}${isOfPeople ? '&by=person' : ''}`
      const report = await ask<UsageReport>(path, { team: teamID, signal })
      const members = isOfPeople
        ? await ask<Member[]>(`/teams/${teamID}/members`, { team: teamID, signal })
        : []
      return { report, members }
    },
    everyMs,
  )
  const download = () => {
    const { days, from, to } = live.data!.report
    saveBlob(`usage-${slug}-${from}-${to}.csv`, new Blob([csvOf(days)]))
  }
  return (
    <Card
      title="Use by day"
      actions={
        <>
          <Choice
            label="Days"
            value={range}
            onChange={setRange}
            options={[
              ['30d', '30d'],
              ['90d', '90d'],
              ['365d', '365d'],
              ['people', 'By person'],
            ]}
          />
          <Button icon="download" onPress={download} disabled={!live.data}>
            CSV
          </Button>
        </>
      }
    >
      <Loaded live={live}>
        {({ report, members }) => (
          <>
            {report.budget && <Budget budget={report.budget} />}
            {report.days.length === 0 && <p class="soft">Nothing was used in this time.</p>}
            {report.days.length > 0 && !isOfPeople && <DayCharts report={report} />}
            {report.days.length > 0 && <Days days={report.days} members={members} isOfPeople={isOfPeople} />}
          </>
        )}
      </Loaded>
    </Card>
  )
}

function Budget({ budget: { month, limits, used, state } }: { budget: UsedBudget }) {
  const bounds = [
    ['CPU hours', 'cpuHours'],
    ['GPU hours', 'gpuHours'],
    ['GiB sent', 'sentGB'],
  ] as const
  return (
    <section class="stack" aria-label="Budget">
      <p>
        Budget of {month} <Badge state={state} />
      </p>
      <div class="grid">
        {bounds.map(([name, bound]) => {
          const limit = limits[bound]
          return limit === null ? null : (
            <Figure key={name} name={name} value={used[bound].toFixed(2)} used={used[bound]} max={limit} />
          )
        })}
      </div>
    </section>
  )
}

const hours = (seconds: number): string => (seconds / 3600).toFixed(2)

function DayCharts({ report: { days, from, to } }: { report: UsageReport }) {
  const [times, byDay] = useMemo(() => {
    const first = Date.parse(from) / 1000
    const count = Math.round((Date.parse(to) / 1000 - first) / daySeconds) + 1
    const known = new Map(days.map((day) => [day.day, day]))
    const all = Array.from({ length: count }, (_, at) => first + at * daySeconds)
    return [all, all.map((at) => known.get(new Date(at * 1000).toISOString().slice(0, 10)))]
  }, [days, from, to])
  const series = (value: (day: UsageOfDay) => number) => ({
    times,
    values: byDay.map((day) => (day ? value(day) / 3600 : 0)),
  })
  const cpu = useMemo(() => series(({ cpuSeconds }) => cpuSeconds), [byDay])
  const sandboxes = useMemo(() => series(({ sandboxSeconds }) => sandboxSeconds), [byDay])
  const format = (value: number) => value.toFixed(value > 0 && value < 10 ? 2 : 0)
  return (
    <div class="charts">
      <Chart title="Hours of sandboxes a day" tone="accent" series={sandboxes} format={format} />
      <Chart title="Hours of CPUs a day" tone="cpu" series={cpu} format={format} />
    </div>
  )
}

type DaysProps = { days: readonly UsageOfDay[]; members: readonly Member[]; isOfPeople: boolean }

function Days({ days, members, isOfPeople }: DaysProps) {
  const names = new Map(members.map(({ personID, name, email }) => [personID, name || email || personID]))
  const person = (id: string | null | undefined) => (id ? (names.get(id) ?? id) : 'services')
  return (
    <Table
      label="Use by day"
      rows={days.toReversed()}
      keyOf={({ day, personID }) => `${day} ${personID}`}
      columns={[
        { name: 'Day', cell: ({ day }) => day },
        ...(isOfPeople ? [{ name: 'Person', cell: ({ personID }: UsageOfDay) => person(personID) }] : []),
        { name: 'Sandbox hours', end: true, cell: ({ sandboxSeconds }) => hours(sandboxSeconds) },
        { name: 'CPU hours', end: true, cell: ({ cpuSeconds }) => hours(cpuSeconds) },
        { name: 'GiB hours', end: true, wide: true, cell: ({ memoryGiBSeconds }) => hours(memoryGiBSeconds) },
        { name: 'GPU hours', end: true, wide: true, cell: ({ gpuSeconds }) => hours(gpuSeconds) },
        { name: 'Sent', end: true, cell: ({ sentBytes }) => bytes(sentBytes) },
        {
          name: 'Stored',
          end: true,
          wide: true,
          cell: ({ storedGiBSeconds }) => bytes((storedGiBSeconds / daySeconds) * gibibyte),
        },
      ]}
    />
  )
}

/** Ids, days and numbers alone, none of which needs quotes. */
function csvOf(days: readonly UsageOfDay[]): string {
  const columns = Object.keys(days[0] ?? {}) as (keyof UsageOfDay)[]
  return [columns, ...days.map((day) => columns.map((name) => day[name] ?? ''))].join('\r\n')
}
