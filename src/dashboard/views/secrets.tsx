/** Secrets by their names: a value goes in and never comes out. */
import { useState } from 'preact/hooks'
import type { Secret } from '../../contract/rest/secret.ts'
import { ago, fullTime } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { ask, askAll } from '../browser/rest.ts'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { confirmFirst, FormDialog } from '../parts/dialog.tsx'
import { Field, firstTeam, TeamField } from '../parts/fields.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { DeleteButton, TeamList, useTeamList } from '../parts/team-list.tsx'
import { showDone } from '../parts/toasts.tsx'

type SecretRow = Secret & { team: string }

export function SecretsView() {
  const live = useTeamList<Secret>('secrets', (team, signal) => askAll('/secrets', { team, signal }))
  const [editing, setEditing] = useState<SecretRow | 'new'>()
  const now = useNow(10_000)
  const remove = ({ secretID, name, team }: SecretRow) =>
    confirmFirst(
      `Delete the secret ${name}?`,
      'Requests that need it go out without it.',
      'Delete',
      async () => {
        await ask(`/secrets/${encodeURIComponent(secretID)}`, { method: 'DELETE', team })
        showDone(`The secret ${name} is deleted.`)
        await live.reload()
      },
    )
  return (
    <div class="view">
      <ViewHead title="Secrets" note="Values that requests of sandboxes carry, and sandboxes never see.">
        <Button needs="member" kind="primary" icon="plus" onPress={() => setEditing('new')}>
          New secret
        </Button>
      </ViewHead>
      <TeamList
        label="Secrets"
        live={live}
        keyOf={({ secretID }) => secretID}
        columns={[
          { name: 'Name', cell: ({ name }) => <span class="name mono">{name}</span> },
          { name: 'Version', wide: true, cell: ({ currentVersion }) => currentVersion },
          {
            name: 'Changed',
            cell: ({ updatedAt }) => (
              <span class="soft" title={fullTime(updatedAt)}>
                {ago(updatedAt, now)}
              </span>
            ),
          },
        ]}
        actions={(row) => (
          <>
            <Button needs="member" team={row.team} small icon="edit" onPress={() => setEditing(row)}>
              New value
            </Button>
            <DeleteButton name={row.name} onPress={() => remove(row)} />
          </>
        )}
        empty={
          <Empty icon="lock" title="No secret yet">
            <p>
              A secret is put into a header as a request leaves for the host that you name. The sandbox only
              has its placeholder:
            </p>
            <CodeBlock
              code={`rules: { 'api.example.com': [{ transform: { headers: {\n  Authorization: 'Bearer {{secret:my-key}}' } } }] }`}
              label="A header rule with a secret"
            />
          </Empty>
        }
      />
      {editing && (
        <SecretDialog edited={editing} onClose={() => setEditing(undefined)} onDone={live.reload} />
      )}
    </div>
  )
}

type DialogProps = { edited: SecretRow | 'new'; onClose: () => void; onDone: () => Promise<void> }

function SecretDialog({ edited, onClose, onDone }: DialogProps) {
  const known = edited === 'new' ? undefined : edited
  const [team, setTeam] = useState(known?.team ?? firstTeam())
  const [name, setName] = useState(known?.name ?? '')
  const [value, setValue] = useState('')
  const submit = async () => {
    if (known) await ask(`/secrets/${encodeURIComponent(known.secretID)}`, { body: { value }, team })
    else await ask('/secrets', { body: { name, value }, team })
    showDone(`The secret ${name} is saved.`)
    await onDone()
  }
  return (
    <FormDialog
      title={known ? `New value of ${known.name}` : 'New secret'}
      action="Save"
      onSubmit={submit}
      onClose={onClose}
    >
      {!known && (
        <>
          <TeamField value={team} onChange={setTeam} />
          <Field label="Name" value={name} onInput={setName} required autofocus mono />
        </>
      )}
      <Field
        label="Value"
        kind="password"
        value={value}
        onInput={setValue}
        required
        mono
        hint="It is stored sealed. Nobody can read it back."
      />
    </FormDialog>
  )
}
