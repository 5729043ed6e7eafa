import { useMemo, useState } from 'preact/hooks'
import type { SandboxDetail, SandboxMetric } from '../../../contract/rest/sandbox.ts'
import { bytes, fullTime, gpusText, mebibytes, percent } from '../../browser/format.ts'
import { now, useLive } from '../../browser/live.ts'
import { ask } from '../../browser/rest.ts'
import { thinned } from '../../browser/thin.ts'
import { Tag } from '../../parts/badges.tsx'
import { Chart, type Series } from '../../parts/chart.tsx'
import { Choice } from '../../parts/fields.tsx'
import { Card, Facts, Loaded } from '../../parts/layout.tsx'
import { Ports } from './ports.tsx'
import type { SandboxTabProps } from './tab-props.ts'
import { Timeline } from './timeline.tsx'

const ranges = { '5m': 300, '1h': 3600, '6h': 21_600, '24h': 86_400, All: 0 } as const
type Range = keyof typeof ranges
const everyMs = 5000
/** More would not be seen. */
const maxPoints = 600

export function OverviewTab({ detail, sandbox }: SandboxTabProps) {
  const [range, setRange] = useState<Range>('1h')
  const { sandboxID, team } = sandbox
  const live = useLive(
    `metrics ${sandboxID} ${range}`,
    (signal) => {
      const start = ranges[range] === 0 ? 0 : Math.floor(now() / 1000) - ranges[range]
      return ask<SandboxMetric[]>(`/sandboxes/${sandboxID}/metrics?start=${start}`, { team, signal })
    },
    everyMs,
  )
  return (
    <div class="columns">
      <div class="stack">
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
          <Loaded live={live}>{(metrics) => <Charts metrics={metrics} detail={detail} />}</Loaded>
        </Card>
        {detail.state === 'running' && <Ports detail={detail} />}
      </div>
      <div class="stack">
        <Card title="About">
          <About detail={detail} />
        </Card>
        <Timeline sandbox={sandbox} />
      </div>
    </div>
  )
}

function Charts({ metrics, detail }: { metrics: readonly SandboxMetric[]; detail: SandboxDetail }) {
  const shown = useMemo(() => thinned(metrics, maxPoints), [metrics])
  const series = (value: (metric: SandboxMetric) => number): Series => ({
    times: shown.map(({ timestampUnix }) => timestampUnix),
    values: shown.map(value),
  })
  const last = metrics.at(-1)
  const cpu = useMemo(() => series(({ cpuUsedPct }) => cpuUsedPct), [shown])
  const memory = useMemo(() => series(({ memUsed }) => memUsed), [shown])
  const disk = useMemo(() => series(({ diskUsed }) => diskUsed), [shown])
  return (
    <div class="charts">
      <Chart
        title="CPU"
        tone="cpu"
        series={cpu}
        max={100}
        format={percent}
        note={`of ${detail.cpuCount} CPU`}
      />
      <Chart
        title="Memory"
        tone="memory"
        series={memory}
        {...(last && { max: last.memTotal })}
        format={bytes}
        note={`of ${mebibytes(detail.memoryMB)}`}
      />
      <Chart
        title="Disk"
        tone="disk"
        series={disk}
        {...(last && { max: last.diskTotal })}
        format={bytes}
        note={`of ${last ? bytes(last.diskTotal) : mebibytes(detail.diskSizeMB)}`}
      />
    </div>
  )
}

function About({ detail }: { detail: SandboxDetail }) {
  const { lifecycle, metadata = {}, volumeMounts = [] } = detail
  return (
    <Facts
      facts={[
        ['Template', <span key="t">{detail.alias ?? detail.templateID}</span>],
        [
          'Size',
          `${detail.cpuCount} CPU, ${mebibytes(detail.memoryMB)}, ${mebibytes(detail.diskSizeMB)} disk${gpusText(detail.gpuCount)}`,
        ],
        ['Started', fullTime(detail.startedAt)],
        [
          lifecycle?.onTimeout === 'pause' ? 'Pauses' : 'Ends',
          detail.state === 'running' ? fullTime(detail.endAt) : 'when it runs again',
        ],
        ['Auto-resume', lifecycle?.autoResume ? 'on: traffic resumes it' : 'off'],
        [
          'Metadata',
          Object.keys(metadata).length === 0 ? (
            <span class="faint">none</span>
          ) : (
            <span class="tags">
              {Object.entries(metadata).map(([key, value]) => (
                <Tag key={key}>
                  {key}={value}
                </Tag>
              ))}
            </span>
          ),
        ],
        ...(volumeMounts.length > 0
          ? [['Volumes', volumeMounts.map(({ name, path }) => `${name} at ${path}`).join(', ')] as const]
          : []),
        ['Agent', detail.envdVersion],
      ]}
    />
  )
}
