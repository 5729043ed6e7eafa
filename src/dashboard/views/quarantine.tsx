/** Snapshots that nothing owns: given back to their team as paused sandboxes, or deleted before their time. */
import type { QuarantineEntry, RecoveredSandbox } from '../../contract/rest/quarantine.ts'
import { ago, fullTime } from '../browser/format.ts'
import { type Live, useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { teamName } from '../browser/session.ts'
import { Button } from '../parts/button.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Card, Empty, Loaded, Table } from '../parts/layout.tsx'
import { showDone } from '../parts/toasts.tsx'

export function Quarantine({ live }: { live: Live<QuarantineEntry[]> }) {
  return (
    <Card title="Quarantine" flush>
      <Loaded live={live}>
        {(entries) =>
          entries.length === 0 ? (
            <Empty icon="check" title="Nothing is in quarantine">
              <p>A snapshot that nothing owns is kept here for some days, so that you can recover it.</p>
            </Empty>
          ) : (
            <Entries entries={entries} onChange={live.reload} />
          )
        }
      </Loaded>
    </Card>
  )
}

type EntriesProps = { entries: readonly QuarantineEntry[]; onChange: () => Promise<void> }

function Entries({ entries, onChange }: EntriesProps) {
  const now = useNow(10_000)
  const pathOf = (snapshotName: string) => `/admin/quarantine/${encodeURIComponent(snapshotName)}`
  const recover = async ({ snapshotName }: QuarantineEntry) => {
    const path = `${pathOf(snapshotName)}/recover`
    const { sandboxID, teamID } = await ask<RecoveredSandbox>(path, { method: 'POST' })
    showDone(`The sandbox ${sandboxID} of ${teamName(teamID)} is back, as paused.`)
    await onChange()
  }
  const remove = ({ snapshotName }: QuarantineEntry) =>
    confirmFirst(`Delete ${snapshotName}?`, 'It cannot be recovered then.', 'Delete', async () => {
      await ask(pathOf(snapshotName), { method: 'DELETE' })
      await onChange()
    })
  return (
    <Table
      label="Snapshots in quarantine"
      rows={entries}
      keyOf={({ snapshotName }) => snapshotName}
      columns={[
        { name: 'Snapshot', cell: ({ snapshotName }) => <span class="mono">{snapshotName}</span> },
        {
          name: 'Sandbox',
          wide: true,
          cell: ({ sandboxID }) => <span class="mono">{sandboxID ?? '–'}</span>,
        },
        { name: 'Why', wide: true, cell: ({ reason }) => reason },
        { name: 'Since', cell: ({ since }) => <span title={fullTime(since)}>{ago(since, now)}</span> },
        { name: 'Deleted', wide: true, cell: ({ deletedAt }) => fullTime(deletedAt) },
        {
          name: '',
          end: true,
          cell: (entry) => (
            <div class="actions">
              <Button small label={`Recover ${entry.snapshotName}`} onPress={() => recover(entry)}>
                Recover
              </Button>
              <Button
                kind="danger"
                small
                label={`Delete ${entry.snapshotName}`}
                onPress={() => remove(entry)}
              >
                Delete
              </Button>
            </div>
          ),
        },
      ]}
    />
  )
}
