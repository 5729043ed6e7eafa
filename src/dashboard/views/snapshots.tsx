import { useState } from 'preact/hooks'
import type { ListedSnapshot } from '../../contract/rest/lifecycle.ts'
import { ago, fullTime, mebibytes, sizeOf } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { ask, askAll } from '../browser/rest.ts'
import { pathTo } from '../browser/router.ts'
import { hasTeams } from '../browser/session.ts'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { DeleteButton, NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { showDone } from '../parts/toasts.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'

type SnapshotRow = ListedSnapshot & { team: string }
const everyMs = 5000

export function SnapshotsView() {
  const live = useTeamList<ListedSnapshot>(
    'snapshots',
    (team, signal) => askAll('/snapshots', { team, signal }),
    everyMs,
  )
  const now = useNow(10_000)
  const [starting, setStarting] = useState<SnapshotRow>()
  const remove = ({ snapshotID, names, team }: SnapshotRow) =>
    confirmFirst(
      `Delete ${names[0] ?? snapshotID}?`,
      'No sandbox can start from it any more.',
      'Delete',
      async () => {
        await ask(`/templates/${encodeURIComponent(snapshotID)}`, { method: 'DELETE', team })
        showDone('The snapshot is deleted.')
        await live.reload()
      },
    )
  return (
    <div class="view">
      <ViewHead title="Snapshots" note="Memory and files of one moment, to start many sandboxes from." />
      <TeamList
        label="Snapshots"
        live={live}
        keyOf={({ snapshotID }) => snapshotID}
        columns={[
          {
            name: 'Snapshot',
            cell: ({ snapshotID, names: [name] }) =>
              name === undefined ? (
                <NameCell name={snapshotID} />
              ) : (
                <NameCell name={name} note={snapshotID} />
              ),
          },
          {
            name: 'Taken of',
            cell: ({ sandboxID, team }) => (
              <a
                class="mono"
                href={pathTo(['sandboxes', sandboxID], { team: hasTeams() ? team : undefined })}
              >
                {sandboxID}
              </a>
            ),
          },
          {
            name: 'Size',
            wide: true,
            cell: ({ cpuCount, memoryMB, diskSizeMB }) => (
              <span class="whole">{`${sizeOf(cpuCount, memoryMB)}, ${mebibytes(diskSizeMB)} disk`}</span>
            ),
          },
          {
            name: 'Created',
            cell: ({ createdAt }) => (
              <span class="soft whole" title={fullTime(createdAt)}>
                {ago(createdAt, now)}
              </span>
            ),
          },
        ]}
        actions={(row) => (
          <>
            <Button needs="member" team={row.team} small icon="play" onPress={() => setStarting(row)}>
              Start
            </Button>
            <DeleteButton name={row.names[0] ?? row.snapshotID} onPress={() => remove(row)} />
          </>
        )}
        empty={
          <Empty icon="camera" title="No snapshot yet">
            <p>Open a running sandbox and press Snapshot, or make one from a program:</p>
            <CodeBlock
              code={`const { snapshotId } = await sandbox.createSnapshot()\nconst copy = await Sandbox.create(snapshotId)`}
              label="Make a snapshot and start from it"
            />
          </Empty>
        }
      />
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
