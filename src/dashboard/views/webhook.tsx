import type { Delivery, Webhook } from '../../contract/rest/event.ts'
import { ago, duration, fullTime } from '../browser/format.ts'
import { useLive, useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { navigate, pathTo } from '../browser/router.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { showDone } from '../parts/toasts.tsx'
import { stateOf } from './webhooks.tsx'

const everyMs = 4000

export function WebhookView({ webhookID, team }: { webhookID: string; team: string | undefined }) {
  const path = `/events/webhooks/${encodeURIComponent(webhookID)}`
  const live = useLive(`webhook ${webhookID}`, (signal) => ask<Webhook>(path, { team, signal }), everyMs)
  const deliveries = useLive(
    `deliveries ${webhookID}`,
    (signal) => ask<Delivery[]>(`${path}/deliveries?limit=100`, { team, signal }),
    everyMs,
  )
  const enable = async (enabled: boolean) => {
    await ask(path, { method: 'PATCH', body: { enabled }, team })
    await live.reload()
  }
  const remove = () =>
    confirmFirst('Delete this webhook?', 'Nothing more is sent to it.', 'Delete', async () => {
      await ask(path, { method: 'DELETE', team })
      showDone('The webhook is deleted.')
      navigate(pathTo(['webhooks']))
    })
  return (
    <div class="view">
      <Loaded live={live}>
        {(webhook) => (
          <>
            <ViewHead
              trail={[[pathTo(['webhooks']), 'Webhooks']]}
              title={
                <>
                  {webhook.name} <Badge state={stateOf(webhook)} />
                </>
              }
              note={<span class="mono">{webhook.url}</span>}
            >
              <Button
                needs="owner"
                team={team}
                icon={webhook.enabled ? 'pause' : 'play'}
                onPress={() => enable(!webhook.enabled)}
              >
                {webhook.enabled ? 'Turn off' : 'Turn on'}
              </Button>
              <Button needs="owner" team={team} kind="danger" icon="trash" onPress={remove}>
                Delete
              </Button>
            </ViewHead>
            {webhook.lastError !== null && (
              <p class="problem">The last attempt failed: {webhook.lastError}</p>
            )}
          </>
        )}
      </Loaded>
      <Loaded live={deliveries}>
        {(sent) =>
          sent.length === 0 ? (
            <Empty icon="bell" title="Nothing was sent yet">
              <p>Each event of a sandbox is a row here, with the answer of the receiver.</p>
            </Empty>
          ) : (
            <Deliveries deliveries={sent} team={team} />
          )
        }
      </Loaded>
    </div>
  )
}

/** A pending delivery that has failed before is shown as retrying. */
const progressOf = ({ status, attempts }: Delivery): string =>
  status === 'pending' && attempts > 0 ? 'retrying' : status

const until = (time: string, now: number): string => {
  const leftMs = Date.parse(time) - now
  return leftMs < 1000 ? 'now' : `in ${duration(leftMs)}`
}

function Deliveries({ deliveries, team }: { deliveries: readonly Delivery[]; team: string | undefined }) {
  const now = useNow(5000)
  return (
    <Card title="Deliveries" flush>
      <Table
        label="Deliveries"
        rows={deliveries}
        keyOf={({ id }) => id}
        columns={[
          {
            name: 'Event',
            cell: ({ type, sandboxID }) => (
              <span class="two">
                <span class="name">{type.split('.').at(-1)}</span>
                <a class="faint mono cut" href={pathTo(['sandboxes', sandboxID], { team })}>
                  {sandboxID}
                </a>
              </span>
            ),
          },
          { name: 'State', cell: (row) => <Badge state={progressOf(row)} /> },
          {
            name: 'Answer',
            wide: true,
            cell: ({ lastStatus, lastError }) =>
              lastError ?? (lastStatus === null ? '–' : `HTTP ${lastStatus}`),
          },
          {
            name: 'Next attempt',
            wide: true,
            cell: ({ status, nextAttemptAt }) => (
              <span class="soft whole">
                {status === 'pending' && nextAttemptAt ? until(nextAttemptAt, now) : '–'}
              </span>
            ),
          },
          { name: 'Attempts', wide: true, end: true, cell: ({ attempts }) => attempts },
          {
            name: 'When',
            cell: ({ createdAt }) => (
              <span class="soft whole" title={fullTime(createdAt)}>
                {ago(createdAt, now)}
              </span>
            ),
          },
        ]}
      />
    </Card>
  )
}
