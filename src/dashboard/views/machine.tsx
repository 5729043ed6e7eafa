/** The machines and how the server does, for the operator. */
import type { DoctorReport, MachineReport } from '../../contract/rest/machine.ts'
import type { Node } from '../../contract/rest/node.ts'
import { ago, bytes, duration, fullTime, percent } from '../browser/format.ts'
import { useLive, useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { isAdmin } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { Figure } from '../parts/figure.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { Checks } from './checks.tsx'

const everyMs = 4000

export function MachineView() {
  if (!isAdmin()) {
    return (
      <div class="view">
        <ViewHead title="Machine" />
        <Empty icon="server" title="The machine is the operator's">
          <p>Log in with the admin token to see it.</p>
        </Empty>
      </div>
    )
  }
  return <Machine />
}

function Machine() {
  const machine = useLive('machine', (signal) => ask<MachineReport>('/admin/machine', { signal }), everyMs)
  const nodes = useLive('nodes', (signal) => ask<Node[]>('/nodes', { signal }), everyMs)
  const doctor = useLive('doctor', (signal) => ask<DoctorReport>('/admin/doctor', { signal }))
  const now = useNow(5000)
  return (
    <div class="view">
      <ViewHead
        title="Machine"
        note={
          machine.data && (
            <>
              <span>Warren {machine.data.version}</span>
              <span>{machine.data.isolation === 'gvisor' ? 'gVisor' : 'containers'}</span>
              <span>up {duration(now - Date.parse(machine.data.startedAt))}</span>
            </>
          )
        }
      >
        <Button icon="activity" onPress={doctor.reload}>
          Examine
        </Button>
      </ViewHead>
      <Loaded live={machine}>{(report) => <Server report={report} />}</Loaded>
      <Loaded live={nodes}>{(list) => <Nodes nodes={list} />}</Loaded>
      <div class="columns even">
        <Card title="Last problems" flush>
          <Loaded live={machine}>{({ problems }) => <Problems problems={problems} now={now} />}</Loaded>
        </Card>
        <Card
          title="What the doctor finds"
          actions={doctor.data && <Badge state={doctor.data.canRun ? 'ok' : 'fail'} />}
          flush
        >
          <Loaded live={doctor}>{({ checks }) => <Checks checks={checks} />}</Loaded>
        </Card>
      </div>
    </div>
  )
}

function Server({ report: { sandboxes, warmPool, creates } }: { report: MachineReport }) {
  const { running = 0, paused = 0, ...moving } = sandboxes
  const others = Object.entries(moving).flatMap(([state, number]) =>
    number > 0 ? [`${number} ${state}`] : [],
  )
  const milliseconds = (value: number | null) => (value === null ? '–' : `${value} ms`)
  return (
    <div class="grid">
      <Figure name="Running" value={String(running)} note={[`${paused} paused`, ...others].join(', ')} />
      <Figure name="Warm pool" value={`${warmPool.ready} ready`} note={`${warmPool.booting} booting`} />
      <Figure
        name="Creates per second"
        value={creates.perSecond.toFixed(2)}
        note={`${creates.succeeded} of the last ${creates.succeeded + creates.failed} succeeded`}
      />
      <Figure name="Create, median" value={milliseconds(creates.p50Ms)} />
      <Figure name="Create, 99 of 100" value={milliseconds(creates.p99Ms)} />
    </div>
  )
}

function Nodes({ nodes }: { nodes: readonly Node[] }) {
  return (
    <Card title={nodes.length === 1 ? 'This machine' : 'Machines'} flush>
      <Table
        label="Machines"
        rows={nodes}
        keyOf={({ id }) => id}
        columns={[
          { name: 'Node', cell: ({ id }) => <span class="mono">{id.slice(0, 12)}</span> },
          { name: 'State', cell: ({ status }) => <Badge state={status} /> },
          { name: 'Sandboxes', end: true, cell: ({ sandboxCount }) => sandboxCount },
          {
            name: 'CPU',
            cell: ({ metrics: { cpuPercent, cpuCount } }) => (
              <Bar part={cpuPercent / 100} text={`${percent(cpuPercent)} of ${cpuCount}`} />
            ),
          },
          {
            name: 'Memory',
            cell: ({ metrics: { memoryUsedBytes: used, memoryTotalBytes: total } }) => (
              <Bar part={used / total} text={`${bytes(used)} of ${bytes(total)}`} />
            ),
          },
          {
            name: 'Disk',
            wide: true,
            cell: ({ metrics: { disks } }) =>
              disks[0] && (
                <Bar
                  part={disks[0].usedBytes / disks[0].totalBytes}
                  text={`${bytes(disks[0].usedBytes)} of ${bytes(disks[0].totalBytes)}`}
                />
              ),
          },
          { name: 'Creates', end: true, wide: true, cell: ({ createSuccesses }) => createSuccesses },
        ]}
      />
    </Card>
  )
}

const nearlyFull = 0.85

function Bar({ part, text }: { part: number; text: string }) {
  return (
    <span class="bar">
      <span class="figures">{text}</span>
      <span class={`meter${part > nearlyFull ? ' full' : ''}`} aria-hidden="true">
        <i style={{ width: `${Math.min(100, 100 * part)}%` }} />
      </span>
    </span>
  )
}

function Problems({ problems, now }: { problems: MachineReport['problems']; now: number }) {
  if (problems.length === 0) {
    return (
      <Empty icon="check" title="No problem was told">
        <p>Warnings and errors of the server since it started are shown here, with what to do about them.</p>
      </Empty>
    )
  }
  return (
    <ul class="problems">
      {problems.map(({ at, level, message, cause, count }) => (
        <li key={`${at} ${message}`}>
          <Badge state={level} />
          <div class="two">
            <span>{message}</span>
            {cause !== null && <span class="faint">{cause}</span>}
          </div>
          <time class="faint" dateTime={at} title={fullTime(at)}>
            {count > 1 ? `${count} times, ` : ''}
            {ago(at, now)}
          </time>
        </li>
      ))}
    </ul>
  )
}
