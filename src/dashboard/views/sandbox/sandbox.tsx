/** One sandbox: what it is and does, and all that can be done with it. */
import type { ComponentChildren } from 'preact'
import type { SandboxDetail } from '../../../contract/rest/sandbox.ts'
import { ago, duration } from '../../browser/format.ts'
import { useLive, useNow } from '../../browser/live.ts'
import { RestFailure } from '../../browser/rest.ts'
import { pathTo } from '../../browser/router.ts'
import { readSandbox, type SandboxRef } from '../../browser/sandboxes.ts'
import { hasTeams, teamName } from '../../browser/session.ts'
import { Badge } from '../../parts/badges.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Empty, Loaded, Tabs, ViewHead } from '../../parts/layout.tsx'
import { SandboxActions } from './actions.tsx'
import { ConnectTab } from './connect.tsx'
import { FilesTab } from './files.tsx'
import { LogsTab } from './logs.tsx'
import { NetworkTab } from './network.tsx'
import { OverviewTab } from './overview.tsx'
import { ProcessesTab } from './processes.tsx'
import { TerminalTab } from './terminal.tsx'
import { Timeline } from './timeline.tsx'

const tabs = {
  overview: { text: 'Overview', View: OverviewTab, needsRunning: false, fills: false },
  logs: { text: 'Logs', View: LogsTab, needsRunning: false, fills: true },
  files: { text: 'Files', View: FilesTab, needsRunning: true, fills: true },
  terminal: { text: 'Terminal', View: TerminalTab, needsRunning: true, fills: true },
  processes: { text: 'Processes', View: ProcessesTab, needsRunning: true, fills: false },
  network: { text: 'Network', View: NetworkTab, needsRunning: true, fills: false },
  connect: { text: 'Connect', View: ConnectTab, needsRunning: false, fills: false },
} as const

const everyMs = 3000

export function SandboxView(props: { sandboxID: string; team: string | undefined; tab: string }) {
  const { sandboxID, team } = props
  const sandbox = { sandboxID, team }
  const live = useLive(`sandbox ${sandboxID}`, (signal) => readSandbox(sandbox, signal), everyMs)
  const tab = props.tab in tabs ? (props.tab as keyof typeof tabs) : 'overview'
  const { View, needsRunning, fills } = tabs[tab]
  const trail = [[pathTo(['sandboxes']), 'Sandboxes']] as const
  if (live.error instanceof RestFailure && live.error.status === 404) {
    return <Ended trail={trail} sandbox={sandbox} />
  }
  const href = (name: string) => pathTo(['sandboxes', sandboxID, name], { team })
  return (
    <div class={`view${fills ? ' fills' : ''}`}>
      <Loaded live={live}>
        {(detail) => (
          <>
            <ViewHead
              trail={trail}
              title={<Title detail={detail} />}
              note={<Note detail={detail} team={team} />}
            >
              <SandboxActions detail={detail} sandbox={sandbox} reload={live.reload} />
            </ViewHead>
            <Tabs
              label="Parts of the sandbox"
              current={tab}
              tabs={Object.entries(tabs).map(([name, { text }]) => [name, text, href(name)] as const)}
            />
            {needsRunning && detail.state !== 'running' ? (
              <Asleep />
            ) : (
              <View key={tab} detail={detail} sandbox={sandbox} reload={live.reload} />
            )}
          </>
        )}
      </Loaded>
    </div>
  )
}

function Title({ detail }: { detail: SandboxDetail }) {
  return (
    <>
      <span class="mono">{detail.sandboxID}</span>
      <CopyButton text={detail.sandboxID} label="Copy the id" />
      <Badge state={detail.state} />
    </>
  )
}

function Note({ detail, team }: { detail: SandboxDetail; team: string | undefined }): ComponentChildren {
  const now = useNow()
  const { alias, templateID, startedAt, endAt, state, lifecycle } = detail
  const ending = lifecycle?.onTimeout === 'pause' ? 'pauses' : 'ends'
  return (
    <>
      <span>{alias ?? templateID}</span>
      {hasTeams() && team && <span>{teamName(team)}</span>}
      <span>started {ago(startedAt, now)}</span>
      {state === 'running' && (
        <span class="figures">
          {ending} in {duration(Date.parse(endAt) - now)}
        </span>
      )}
    </>
  )
}

function Asleep() {
  return (
    <Empty icon="pause" title="This sandbox is paused">
      <p>Its memory and files are kept. Resume it to work inside.</p>
    </Empty>
  )
}

function Ended({ trail, sandbox }: { trail: readonly (readonly [string, string])[]; sandbox: SandboxRef }) {
  return (
    <div class="view">
      <ViewHead trail={trail} title={<span class="mono">{sandbox.sandboxID}</span>} />
      <Empty icon="box" title="There is no such sandbox, or it has ended">
        <p>
          Its memory and files are deleted. <a href={pathTo(['sandboxes'])}>See all sandboxes</a>.
        </p>
      </Empty>
      <Timeline sandbox={sandbox} />
    </div>
  )
}
