/** Who is logged in, and the view that the address names. */
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { forgetAll } from '../browser/live.ts'
import { resume } from '../browser/log-in.ts'
import { messageFor } from '../browser/rest.ts'
import { address, type ViewAddress } from '../browser/router.ts'
import { hasTeams, session } from '../browser/session.ts'
import { Button } from '../parts/button.tsx'
import { Confirmation } from '../parts/dialog.tsx'
import { Empty, Waiting } from '../parts/layout.tsx'
import { Toasts } from '../parts/toasts.tsx'
import { AuditView } from './audit.tsx'
import { FindTeam, needsTeam } from './find-team.tsx'
import { KeysView } from './keys.tsx'
import { LoginView } from './login.tsx'
import { MachineView } from './machine.tsx'
import { MembersView } from './members.tsx'
import { SandboxView } from './sandbox/sandbox.tsx'
import { SandboxesView } from './sandboxes.tsx'
import { SecretsView } from './secrets.tsx'
import { SessionsView } from './sessions.tsx'
import { SharesView } from './shares.tsx'
import { Shell } from './shell.tsx'
import { SnapshotsView } from './snapshots.tsx'
import { TeamView } from './team.tsx'
import { TemplateView } from './template.tsx'
import { TemplatesView } from './templates.tsx'
import { VolumeView } from './volume.tsx'
import { VolumesView } from './volumes.tsx'
import { WebhookView } from './webhook.tsx'
import { WebhooksView } from './webhooks.tsx'

export function App() {
  const current = session.use()
  const here = address.use()
  const [problem, setProblem] = useState<string>()
  const [isReady, setReady] = useState(false)
  const start = () => {
    setProblem(undefined)
    resume().then(
      () => setReady(true),
      (error) => setProblem(messageFor(error)),
    )
  }
  useEffect(start, [])
  useEffect(() => {
    if (!current) forgetAll()
  }, [current])
  if (problem !== undefined) return <Unreachable problem={problem} onRetry={start} />
  if (!isReady) return <Waiting />
  return (
    <>
      {current ? <Shell>{viewOf(here)}</Shell> : <LoginView />}
      <Confirmation />
      <Toasts />
    </>
  )
}

function viewOf({ segments: [noun = 'sandboxes', id, tab], query }: ViewAddress): ComponentChildren {
  const team = query.get('team') ?? undefined
  if (hasTeams() && team === undefined && needsTeam(noun, id)) {
    return <FindTeam key={`${noun} ${id}`} noun={noun} id={id!} />
  }
  switch (noun) {
    case 'sandboxes':
      return id ? (
        <SandboxView key={id} sandboxID={id} team={team} tab={tab ?? 'overview'} />
      ) : (
        <SandboxesView />
      )
    case 'templates':
      return id ? <TemplateView key={id} templateID={id} team={team} /> : <TemplatesView />
    case 'snapshots':
      return <SnapshotsView />
    case 'volumes':
      return id ? <VolumeView key={id} volumeID={id} team={team} /> : <VolumesView />
    case 'secrets':
      return <SecretsView />
    case 'webhooks':
      return id ? <WebhookView key={id} webhookID={id} team={team} /> : <WebhooksView />
    case 'keys':
      return <KeysView />
    case 'team':
      return <TeamView />
    case 'members':
      return <MembersView />
    case 'audit':
      return <AuditView />
    case 'sessions':
      return <SessionsView />
    case 'shares':
      return <SharesView />
    case 'machine':
      return <MachineView />
    default:
      return (
        <Empty icon="search" title="There is nothing here">
          <p>
            The address names no view of the dashboard. <a href="/dashboard">See the sandboxes</a> instead.
          </p>
        </Empty>
      )
  }
}

function Unreachable({ problem, onRetry }: { problem: string; onRetry: () => void }) {
  return (
    <Empty icon="alert" title="Warren cannot be reached">
      <p>{problem}</p>
      <Button onPress={onRetry}>Try again</Button>
    </Empty>
  )
}
