import { useState } from 'preact/hooks'
import type { Volume } from '../../contract/rest/volume.ts'
import { ask } from '../browser/rest.ts'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { confirmFirst, FormDialog } from '../parts/dialog.tsx'
import { Field, firstTeam, TeamField } from '../parts/fields.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { DeleteButton, NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { tellDone } from '../parts/toasts.tsx'

type VolumeRow = Volume & { team: string }
const everyMs = 5000

export function VolumesView() {
  const live = useTeamList<Volume>('volumes', (team, signal) => ask('/volumes', { team, signal }), everyMs)
  const [isMaking, setMaking] = useState(false)
  const remove = ({ volumeID, name, team }: VolumeRow) =>
    confirmFirst(`Delete the volume ${name}?`, 'All files in it are lost.', 'Delete', async () => {
      await ask(`/volumes/${encodeURIComponent(volumeID)}`, { method: 'DELETE', team })
      tellDone(`The volume ${name} is deleted.`)
      await live.reload()
    })
  return (
    <div class="view">
      <ViewHead title="Volumes" note="Files that outlive sandboxes, and that several may share.">
        <Button kind="primary" icon="plus" onPress={() => setMaking(true)}>
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
