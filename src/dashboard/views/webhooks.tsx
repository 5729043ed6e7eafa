import { useState } from 'preact/hooks'
import type { EventType, Webhook } from '../../contract/rest/event.ts'
import { ask } from '../browser/rest.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Check, Field, firstTeam, TeamField } from '../parts/fields.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'

const eventTypes = ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed'].map(
  (name) => `sandbox.lifecycle.${name}` as EventType,
)

export const stateOf = ({ enabled, failingSince, lastError }: Webhook): string =>
  failingSince !== null ? 'failed' : !enabled ? 'off' : lastError !== null ? 'failing' : 'on'

const makeWebhook = () => `curl ${location.origin}/events/webhooks \\
  -H "X-API-Key: $E2B_API_KEY" -H "Content-Type: application/json" \\
  -d '{"name": "mine", "url": "https://example.com/hook",
       "events": ["sandbox.lifecycle.created"],
       "signatureSecret": "…"}'`

export function WebhooksView() {
  const live = useTeamList<Webhook>(
    'webhooks',
    (team, signal) => ask('/events/webhooks', { team, signal }),
    10_000,
  )
  const [isMaking, setMaking] = useState(false)
  return (
    <div class="view">
      <ViewHead title="Webhooks" note="URLs that get a request for each event of a sandbox.">
        <Button needs="owner" kind="primary" icon="plus" onPress={() => setMaking(true)}>
          New webhook
        </Button>
      </ViewHead>
      <TeamList
        label="Webhooks"
        live={live}
        keyOf={({ id }) => id}
        columns={[
          {
            name: 'Webhook',
            cell: ({ id, name, url, team }) => (
              <NameCell name={name} note={url} view={['webhooks', id]} team={team} />
            ),
          },
          {
            name: 'Events',
            wide: true,
            cell: ({ events }) => events.map((type) => type.split('.').at(-1)).join(', '),
          },
          { name: 'State', cell: (row) => <Badge state={stateOf(row)} /> },
        ]}
        empty={
          <Empty icon="bell" title="No webhook yet">
            <p>A webhook gets a signed request for each event of a sandbox. Make one here, or with curl:</p>
            <CodeBlock code={makeWebhook()} label="Make a webhook" />
          </Empty>
        }
      />
      {isMaking && <NewWebhook onClose={() => setMaking(false)} onDone={live.reload} />}
    </div>
  )
}

function NewWebhook({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [team, setTeam] = useState(firstTeam())
  const [name, setName] = useState('')
  const [url, setUrl] = useState('')
  const [signatureSecret, setSecret] = useState('')
  const [events, setEvents] = useState<EventType[]>(eventTypes)
  const toggle = (type: EventType) =>
    setEvents(events.includes(type) ? events.filter((one) => one !== type) : [...events, type])
  const submit = async () => {
    await ask('/events/webhooks', { body: { name, url, signatureSecret, events }, team })
    await onDone()
  }
  return (
    <FormDialog title="New webhook" action="Create" onSubmit={submit} onClose={onClose}>
      <TeamField value={team} onChange={setTeam} />
      <Field label="Name" value={name} onInput={setName} required autofocus />
      <Field
        label="URL"
        kind="url"
        value={url}
        onInput={setUrl}
        placeholder="https://example.com/hook"
        required
        mono
      />
      <Field
        label="Secret that signs requests"
        kind="password"
        value={signatureSecret}
        onInput={setSecret}
        required
        mono
        hint="The receiver checks the signature with it. Nobody can read it back."
      />
      <fieldset class="checks">
        <legend>Events</legend>
        {eventTypes.map((type) => (
          <Check
            key={type}
            label={type.split('.').at(-1)!}
            checked={events.includes(type)}
            onChange={() => toggle(type)}
          />
        ))}
      </fieldset>
    </FormDialog>
  )
}
