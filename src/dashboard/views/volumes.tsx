import { useState } from 'preact/hooks'
import type { Volume } from '../../contract/rest/volume.ts'
import { ago, count, fullTime, mebibytes } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { pathTo } from '../browser/router.ts'
import { hasTeams } from '../browser/session.ts'
import { type MountedIn, readMounts } from '../browser/volume-mounts.ts'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { confirmFirst, FormDialog } from '../parts/dialog.tsx'
import { Field, firstTeam, TeamField } from '../parts/fields.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { DeleteButton, NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { showDone } from '../parts/toasts.tsx'

type MountedVolume = Volume & { mountedIn: MountedIn[] }
type VolumeRow = MountedVolume & { team: string }
const everyMs = 10_000

export function VolumesView() {
  const live = useTeamList<MountedVolume>('volumes', readVolumes, everyMs)
  const now = useNow(10_000)
  const [isMaking, setMaking] = useState(false)
  const remove = ({ volumeID, name, team }: VolumeRow) =>
    confirmFirst(`Delete the volume ${name}?`, 'All files in it are lost.', 'Delete', async () => {
      await ask(`/volumes/${encodeURIComponent(volumeID)}`, { method: 'DELETE', team })
      showDone(`The volume ${name} is deleted.`)
      await live.reload()
    })
  return (
    <div class="view">
      <ViewHead title="Volumes" note="Files that outlive sandboxes, and that several may share.">
        <Button needs="member" kind="primary" icon="plus" onPress={() => setMaking(true)}>
          New volume
        </Button>
      </ViewHead>
      <TeamList
        label="Volumes"
        live={live}
        keyOf={({ volumeID }) => volumeID}
        columns={[
          {
            name: 'Volume',
            cell: ({ volumeID, name, team }) => (
              <NameCell name={name} note={volumeID} view={['volumes', volumeID]} team={team} />
            ),
          },
          { name: 'Size', cell: ({ sizeMB }) => <span class="whole">{mebibytes(sizeMB)}</span> },
          { name: 'Mounted in', cell: ({ mountedIn, team }) => <Mounts mountedIn={mountedIn} team={team} /> },
          {
            name: 'Created',
            cell: ({ createdAt }) => (
              <span class="soft whole" title={fullTime(createdAt)}>
                {ago(createdAt, now)}
              </span>
            ),
          },
        ]}
        actions={(row) => <DeleteButton name={row.name} onPress={() => remove(row)} />}
        empty={
          <Empty icon="disk" title="No volume yet">
            <p>Make one here or from a program, and mount it into sandboxes:</p>
            <CodeBlock
              code={`const volume = await Volume.create('data')\nawait Sandbox.create({ volumeMounts: { '/data': volume } })`}
              label="Make a volume and mount it"
            />
          </Empty>
        }
      />
      {isMaking && <NewVolume onClose={() => setMaking(false)} onDone={live.reload} />}
    </div>
  )
}

async function readVolumes(team: string, signal: AbortSignal): Promise<MountedVolume[]> {
  const [volumes, mounts] = await Promise.all([
    ask<Volume[]>('/volumes', { team, signal }),
    readMounts(team, signal),
  ])
  return volumes.map((volume) => ({ ...volume, mountedIn: mounts.get(volume.name) ?? [] }))
}

const maxMounts = 3

/** The sandboxes as links, each with the path at which it has the volume. */
export function Mounts({ mountedIn, team }: { mountedIn: readonly MountedIn[]; team: string | undefined }) {
  if (mountedIn.length === 0) return <span class="faint">no sandbox</span>
  const more = mountedIn.length - maxMounts
  return (
    <span class="two">
      {mountedIn.slice(0, maxMounts).map(({ sandboxID, path }) => (
        <span key={sandboxID}>
          <a class="mono" href={pathTo(['sandboxes', sandboxID], { team: hasTeams() ? team : undefined })}>
            {sandboxID}
          </a>{' '}
          <span class="faint">at {path}</span>
        </span>
      ))}
      {more > 0 && <span class="faint">and {count(more, 'other', 'others')}</span>}
    </span>
  )
}

function NewVolume({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [team, setTeam] = useState(firstTeam())
  const [name, setName] = useState('')
  const submit = async () => {
    await ask('/volumes', { body: { name: name.trim() }, team })
    await onDone()
  }
  return (
    <FormDialog title="New volume" action="Create" onSubmit={submit} onClose={onClose}>
      <TeamField value={team} onChange={setTeam} />
      <Field
        label="Name"
        value={name}
        onInput={setName}
        hint="Letters, digits, - and _."
        required
        autofocus
        mono
      />
    </FormDialog>
  )
}
