/** The machines and how the server does, for the operator. */
import type { DoctorReport, MachineReport } from '../../contract/rest/machine.ts'
import type { Node } from '../../contract/rest/node.ts'
import type { QuarantineEntry } from '../../contract/rest/quarantine.ts'
import { ago, duration, fullTime, shortDuration, waitingText } from '../browser/format.ts'
import { useLive, useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { isAdmin } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { Figure } from '../parts/figure.tsx'
import { Card, Empty, Loaded, ViewHead } from '../parts/layout.tsx'
import { Checks } from './checks.tsx'
import { Nodes } from './nodes.tsx'
import { OperatorOnly } from './operator-only.tsx'
import { offerPrune } from './prune.ts'
import { Quarantine } from './quarantine.tsx'

const everyMs = 4000
const quarantineEveryMs = 30_000

export function MachineView() {
  return isAdmin() ? <Machine /> : <OperatorOnly title="Machine" what="the machine" />
}

function Machine() {
  const machine = useLive('machine', (signal) => ask<MachineReport>('/admin/machine', { signal }), everyMs)
  const nodes = useLive('nodes', (signal) => ask<Node[]>('/nodes', { signal }), everyMs)
  const doctor = useLive('doctor', (signal) => ask<DoctorReport>('/admin/doctor', { signal }))
  const quarantine = useLive(
    'quarantine',
    (signal) => ask<QuarantineEntry[]>('/admin/quarantine', { signal }),
    quarantineEveryMs,
  )
  const now = useNow(5000)
  return (
    <div class="view">
      <ViewHead
        title="Machine"
        note={
          machine.data && (
            <>
              <span>Warren {machine.data.version}</span>
              <span>{machine.data.isolationLabel}</span>
              <span>up {duration(now - Date.parse(machine.data.startedAt))}</span>
            </>
          )
        }
      >
        <Button icon="trash" onPress={offerPrune}>
          Prune
        </Button>
        <Button icon="activity" onPress={doctor.reload}>
          Run checks
        </Button>
      </ViewHead>
      <Loaded live={machine}>{(report) => <Server report={report} />}</Loaded>
      <Loaded live={nodes}>{(list) => <Nodes nodes={list} onChange={nodes.reload} />}</Loaded>
      <div class="columns even">
        <Card title="Last problems" flush>
          <Loaded live={machine}>{({ problems }) => <Problems problems={problems} now={now} />}</Loaded>
        </Card>
        <Card
          title="Health checks"
          actions={doctor.data && <Badge state={doctor.data.canRun ? 'ok' : 'fail'} />}
          flush
        >
          <Loaded live={doctor}>{({ checks }) => <Checks checks={checks} />}</Loaded>
        </Card>
      </div>
      <Quarantine live={quarantine} />
    </div>
  )
}

function Server({ report: { sandboxes, warmPool, creates, objectStore } }: { report: MachineReport }) {
  const { running = 0, paused = 0, ...inTransition } = sandboxes
  const others = Object.entries(inTransition).flatMap(([state, number]) =>
    number > 0 ? [`${number} ${state}`] : [],
  )
  const time = (value: number | null) => (value === null ? '–' : shortDuration(value))
  return (
    <div class="grid figures">
      <Figure name="Running" value={String(running)} note={[`${paused} paused`, ...others].join(', ')} />
      <Figure name="Warm pool" value={`${warmPool.ready} ready`} note={`${warmPool.booting} booting`} />
      <Figure
        {...rateOf(creates.perSecond)}
        note={`${creates.succeeded} of the last ${creates.succeeded + creates.failed} succeeded`}
      />
      <Figure
        name="Create, median"
        value={time(creates.p50Ms)}
        note={`99 of 100 within ${time(creates.p99Ms)}`}
      />
      {objectStore && (
        <Figure
          name="Not uploaded yet"
          value={String(objectStore.waitingTemplates + objectStore.waitingSandboxes)}
          note={waitingText(objectStore.waitingTemplates, objectStore.waitingSandboxes, objectStore.onlyHere)}
        />
      )}
    </div>
  )
}

/** In the unit that has a whole number to show. */
const rateOf = (perSecond: number) =>
  perSecond >= 1
    ? { name: 'Creates per second', value: perSecond.toFixed(1) }
    : { name: 'Creates per minute', value: String(Math.round(60 * perSecond)) }

function Problems({ problems, now }: { problems: MachineReport['problems']; now: number }) {
  if (problems.length === 0) {
    return (
      <Empty icon="check" title="No problems">
        <p>The server's warnings and errors since it started are shown here, with what to do about them.</p>
      </Empty>
    )
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
    <ul class="problems" aria-label="Last problems" tabIndex={0}>
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
