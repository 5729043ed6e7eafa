/** The limits and the usage of a team. */
import { useMemo, useState } from 'preact/hooks'
import type { ListedSandbox } from '../../contract/rest/sandbox.ts'
import { count, mebibytes } from '../browser/format.ts'
import { now, useLive } from '../browser/live.ts'
import { reloadTeams } from '../browser/log-in.ts'
import { ask, askAll } from '../browser/rest.ts'
import { isAdmin, type KnownTeam, session, teamsInScope } from '../browser/session.ts'
import { thinned } from '../browser/thin.ts'
import { Button } from '../parts/button.tsx'
import { Chart } from '../parts/chart.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Choice } from '../parts/fields.tsx'
import { Figure } from '../parts/figure.tsx'
import { Card, Loaded, ViewHead } from '../parts/layout.tsx'
import { showDone, showFailure } from '../parts/toasts.tsx'
import { LimitsDialog } from './limits-dialog.tsx'
import { TeamChoice } from './team-choice.tsx'
import { TeamTable } from './team-table.tsx'
import { UsageByDay } from './usage-by-day.tsx'

const ranges = { '1h': 3600, '24h': 86_400, '7d': 604_800, '30d': 2_592_000 } as const
type Range = keyof typeof ranges
type UsageSample = { timestampUnix: number; concurrentSandboxes: number; sandboxStartRate: number }
const maxPoints = 600

export function TeamView() {
  const scope = session.use()?.scope
  const teams = teamsInScope()
  if (isAdmin() && scope === null) return <TeamTable teams={teams} />
  if (teams.length > 1) return <TeamChoice teams={teams} />
  return teams[0] ? <OneTeam key={teams[0].teamID} team={teams[0]} /> : null
}

function OneTeam({ team }: { team: KnownTeam }) {
  const [range, setRange] = useState<Range>('24h')
  const [isEditing, setEditing] = useState(false)
  const { teamID } = team
  const running = useLive(
    `use ${teamID}`,
    (signal) => askAll<ListedSandbox>('/v2/sandboxes?state=running', { team: teamID, signal }),
    10_000,
  )
  const usage = useLive(
    `usage ${teamID} ${range}`,
    (signal) => {
      const start = Math.floor(now() / 1000) - ranges[range]
      return ask<UsageSample[]>(`/teams/${teamID}/metrics?start=${start}`, { team: teamID, signal })
    },
    30_000,
  )
  return (
    <div class="view">
      <ViewHead title={team.name} note={<span class="mono">{teamID}</span>}>
        {isAdmin() && (
          <Button icon="edit" onPress={() => setEditing(true)}>
            Change limits
          </Button>
        )}
      </ViewHead>
      <Loaded live={running}>{(sandboxes) => <Use team={team} sandboxes={sandboxes} />}</Loaded>
      <Card
        title="Usage"
        actions={
          <Choice
            label="Time range"
            value={range}
            onChange={setRange}
            options={Object.keys(ranges).map((name) => [name as Range, name] as const)}
          />
        }
      >
        <Loaded live={usage}>{(samples) => <UsageCharts samples={samples} />}</Loaded>
      </Card>
      <UsageByDay team={team} />
      {isAdmin() && <OlderClients team={team} />}
      {isEditing && team.limits && <LimitsDialog team={team} onClose={() => setEditing(false)} />}
    </div>
  )
}

/** Only the operator may allow clients that are older than access tokens. */
function OlderClients({ team: { teamID, name, olderClients } }: { team: KnownTeam }) {
  const set = async (allowed: boolean) => {
    await ask(`/admin/teams/${teamID}`, { method: 'PATCH', body: { olderClients: allowed } })
    showDone(`Older clients of ${name} are ${allowed ? 'allowed' : 'rejected'}.`)
    await reloadTeams()
  }
  const allow = () =>
    confirmFirst(
      `Allow older clients of ${name}?`,
      'Each sandbox of such a client has its secret in its host name, which DNS and links to its ports show.',
      'Allow',
      () => set(true),
    )
  const reject = () => void set(false).catch(showFailure)
  return (
    <Card
      title="Older clients"
      actions={
        <Button onPress={olderClients ? reject : allow}>{olderClients ? 'Reject them' : 'Allow them'}</Button>
      }
    >
      <p>
        E2B clients before 1.5 send no access token.{' '}
        {olderClients
          ? 'This team may use them.'
          : 'This team may not use them, unless WARREN_OLDER_CLIENTS allows them to all teams.'}
      </p>
    </Card>
  )
}

function Use({ team: { limits }, sandboxes }: { team: KnownTeam; sandboxes: readonly ListedSandbox[] }) {
  const sum = (value: (sandbox: ListedSandbox) => number) =>
    sandboxes.reduce((total, sandbox) => total + value(sandbox), 0)
  const memory = sum(({ memoryMB }) => memoryMB)
  const cpu = sum(({ cpuCount }) => cpuCount)
  return (
    <div class="grid">
      <Figure
        name="Sandboxes"
        value={String(sandboxes.length)}
        used={sandboxes.length}
        max={limits?.maxSandboxes}
      />
      <Figure name="CPUs allocated" value={String(cpu)} used={cpu} max={limits?.maxCPU} />
      <Figure
        name="Memory allocated"
        value={mebibytes(memory)}
        used={memory}
        max={limits?.maxMemoryMB}
        {...(limits && { of: mebibytes(limits.maxMemoryMB) })}
      />
      <Figure name="Longest timeout" value={limits ? count(limits.maxLifetimeHours, 'hour') : '–'} />
    </div>
  )
}

/** So that half of the chart is a whole number, too. */
const evenAbove = (value: number): number => Math.max(2, 2 * Math.ceil((value * 1.1) / 2))

function UsageCharts({ samples }: { samples: readonly UsageSample[] }) {
  const shown = useMemo(() => thinned(samples, maxPoints), [samples])
  const times = shown.map(({ timestampUnix }) => timestampUnix)
  const concurrent = useMemo(
    () => ({ times, values: shown.map(({ concurrentSandboxes }) => concurrentSandboxes) }),
    [shown],
  )
  const starts = useMemo(
    () => ({ times, values: shown.map(({ sandboxStartRate }) => 60 * sandboxStartRate) }),
    [shown],
  )
  return (
    <div class="charts">
      <Chart
        title="Running sandboxes"
        tone="accent"
        series={concurrent}
        max={evenAbove(Math.max(0, ...concurrent.values))}
        format={(value) => value.toFixed(0)}
      />
      <Chart
        title="Started per minute"
        tone="cpu"
        series={starts}
        max={evenAbove(Math.max(0, ...starts.values))}
        format={(value) => value.toFixed(value > 0 && value < 10 ? 1 : 0)}
      />
    </div>
  )
}
