import { useState } from 'preact/hooks'
import { fullTime, mebibytes } from '../browser/format.ts'
import { useLive } from '../browser/live.ts'
import { reloadTeams } from '../browser/log-in.ts'
import { ask } from '../browser/rest.ts'
import { type KnownTeam, setScope } from '../browser/session.ts'
import { Button } from '../parts/button.tsx'
import { confirmFirst, FormDialog } from '../parts/dialog.tsx'
import { Field } from '../parts/fields.tsx'
import { Card, Table, ViewHead } from '../parts/layout.tsx'
import { showDone } from '../parts/toasts.tsx'
import { LimitsDialog } from './limits-dialog.tsx'

/** All teams, as the operator sees them. */
export function TeamTable({ teams }: { teams: readonly KnownTeam[] }) {
  const counts = useLive(
    'running counts',
    () => ask<Record<string, number>>('/admin/sandboxes/running-counts'),
    5000,
  )
  const [isMaking, setMaking] = useState(false)
  const [limited, setLimited] = useState<KnownTeam>()
  const remove = ({ teamID, name }: KnownTeam) =>
    confirmFirst(
      `Delete the team ${name}?`,
      'Its keys stop working. While it has sandboxes, templates or volumes, Warren refuses.',
      'Delete',
      async () => {
        await ask(`/admin/teams/${teamID}`, { method: 'DELETE' })
        showDone(`The team ${name} is deleted.`)
        await reloadTeams()
      },
    )
  return (
    <div class="view">
      <ViewHead title="Teams" note="Each team sees only its own sandboxes, templates and keys.">
        <Button kind="primary" icon="plus" onPress={() => setMaking(true)}>
          New team
        </Button>
      </ViewHead>
      <Card flush>
        <Table
          label="Teams"
          rows={teams}
          keyOf={({ teamID }) => teamID}
          columns={[
            {
              name: 'Team',
              cell: ({ teamID, name, slug }) => (
                <span class="two">
                  <button type="button" class="plain-link name" onClick={() => setScope(teamID)}>
                    {name}
                  </button>
                  <span class="faint mono">{slug}</span>
                </span>
              ),
            },
            {
              name: 'Running',
              end: true,
              cell: ({ teamID, limits }) => (
                <span class="figures">
                  {counts.data?.[teamID] ?? 0} of {limits?.maxSandboxes}
                </span>
              ),
            },
            { name: 'CPU limit', end: true, wide: true, cell: ({ limits }) => limits?.maxCPU },
            {
              name: 'Memory limit',
              end: true,
              wide: true,
              cell: ({ limits }) => mebibytes(limits?.maxMemoryMB ?? 0),
            },
            { name: 'Created', wide: true, cell: ({ createdAt }) => (createdAt ? fullTime(createdAt) : '') },
            {
              name: '',
              end: true,
              cell: (team) => (
                <div class="actions">
                  <Button small onPress={() => setLimited(team)}>
                    Limits
                  </Button>
                  <Button
                    kind="quiet"
                    small
                    icon="trash"
                    label={`Delete ${team.name}`}
                    onPress={() => remove(team)}
                  />
                </div>
              ),
            },
          ]}
        />
      </Card>
      {isMaking && <NewTeam onClose={() => setMaking(false)} />}
      {limited && <LimitsDialog team={limited} onClose={() => setLimited(undefined)} />}
    </div>
  )
}

function NewTeam({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const submit = async () => {
    await ask('/admin/teams', { body: { name: name.trim() } })
    await reloadTeams()
  }
  return (
    <FormDialog title="New team" action="Create" onSubmit={submit} onClose={onClose}>
      <Field label="Name" value={name} onInput={setName} required autofocus />
    </FormDialog>
  )
}
