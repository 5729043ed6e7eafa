import { useState } from 'preact/hooks'
import { useLive } from '../browser/live.ts'
import { ask, askAll } from '../browser/rest.ts'
import { ofTeams, session, teamName, teamsInScope } from '../browser/session.ts'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { tellDone } from '../parts/toasts.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'

type SnapshotRow = { snapshotID: string; names: string[]; team: string }
const everyMs = 5000

export function SnapshotsView() {
  const scope = session.use()?.scope ?? 'all'
  const load = (signal: AbortSignal) =>
    ofTeams((team) => askAll<Omit<SnapshotRow, 'team'>>('/snapshots', { team, signal }))
  const live = useLive<SnapshotRow[]>(`snapshots ${scope}`, load, everyMs)
  const [starting, setStarting] = useState<SnapshotRow>()
  const remove = ({ snapshotID, names, team }: SnapshotRow) =>
    confirmFirst(
      `Delete ${names[0] ?? snapshotID}?`,
      'No sandbox can start from it any more.',
      'Delete',
      async () => {
        await ask(`/templates/${encodeURIComponent(snapshotID)}`, { method: 'DELETE', team })
        tellDone('The snapshot is deleted.')
        await live.reload()
      },
    )
  return (
    <div class="view">
      <ViewHead title="Snapshots" note="Memory and files of one moment, to start many sandboxes from." />
      <Loaded live={live}>
        {(snapshots) =>
          snapshots.length === 0 ? (
            <Empty icon="camera" title="No snapshot yet">
              <p>Open a running sandbox and press Snapshot, or make one from a program:</p>
              <CodeBlock
                code={`const { snapshotId } = await sandbox.createSnapshot()\nconst copy = await Sandbox.create(snapshotId)`}
                label="Make a snapshot and start from it"
              />
            </Empty>
          ) : (
            <Card flush>
              <Table
                label="Snapshots"
                rows={snapshots}
                keyOf={({ snapshotID }) => snapshotID}
                columns={[
                  {
                    name: 'Snapshot',
                    cell: ({ snapshotID, names }) => (
                      <span class="two">
                        <span class="name">{names[0] ?? snapshotID}</span>
                        {names[0] !== undefined && <span class="faint mono">{snapshotID}</span>}
                      </span>
                    ),
                  },
                  ...(teamsInScope().length > 1
                    ? [{ name: 'Team', cell: ({ team }: SnapshotRow) => teamName(team), wide: true }]
                    : []),
                  {
                    name: '',
                    end: true,
                    cell: (row) => (
                      <div class="actions">
                        <Button small icon="play" onPress={() => setStarting(row)}>
                          Start
                        </Button>
                        <Button
                          kind="quiet"
                          small
                          icon="trash"
                          label={`Delete ${row.names[0] ?? row.snapshotID}`}
                          onPress={() => remove(row)}
                        />
                      </div>
                    ),
                  },
                ]}
              />
            </Card>
          )
        }
      </Loaded>
      {starting && (
        <NewSandboxDialog
          template={starting.snapshotID}
          team={starting.team}
          onClose={() => setStarting(undefined)}
        />
      )}
    </div>
  )
}
