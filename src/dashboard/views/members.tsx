/** Who is in the teams, with which role. */
import { useState } from 'preact/hooks'
import type { Member } from '../../contract/rest/person.ts'
import { ago } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { logOut } from '../browser/log-in.ts'
import { ask } from '../browser/rest.ts'
import { may, session } from '../browser/session.ts'
import { Tag } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { confirmFirst, FormDialog } from '../parts/dialog.tsx'
import { Field, firstTeam, Select, TeamField } from '../parts/fields.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { showDone, showFailure } from '../parts/toasts.tsx'
import { roleOptions } from './role-options.ts'

type MemberRow = Member & { team: string }

const pathOf = ({ team, personID }: MemberRow): string =>
  `/teams/${encodeURIComponent(team)}/members/${encodeURIComponent(personID)}`

export function MembersView() {
  const live = useTeamList<Member>(
    'members',
    (team, signal) => ask(`/teams/${encodeURIComponent(team)}/members`, { team, signal }),
    10_000,
  )
  const [isAdding, setAdding] = useState(false)
  const now = useNow(10_000)
  const me = session.use()?.person?.personID
  const setRole = async (row: MemberRow, role: string) => {
    await ask(pathOf(row), { method: 'PATCH', body: { role }, team: row.team }).catch(showFailure)
    await live.reload()
  }
  const remove = (row: MemberRow) => {
    const isMe = row.personID === me
    const title = isMe ? 'Leave this team?' : `Remove ${row.name}?`
    return confirmFirst(title, textOf(row), isMe ? 'Leave' : 'Remove', async () => {
      await ask(pathOf(row), { method: 'DELETE', team: row.team })
      showDone(isMe ? 'You have left the team.' : `${row.name} is no longer in the team.`)
      if (isMe) await logOut()
      else await live.reload()
    })
  }
  return (
    <div class="view">
      <ViewHead title="Members" note="Who works in the team, and what they may do.">
        <Button needs="owner" kind="primary" icon="plus" onPress={() => setAdding(true)}>
          Add a person
        </Button>
      </ViewHead>
      <TeamList
        label="Members"
        live={live}
        keyOf={({ team, personID }) => `${team} ${personID}`}
        columns={[
          {
            name: 'Person',
            cell: (row) => <NameCell name={nameOf(row, me)} note={noteOf(row)} />,
          },
          { name: 'Role', cell: (row) => <RoleCell row={row} onChange={(role) => setRole(row, role)} /> },
          {
            name: 'By',
            wide: true,
            cell: ({ source, addedBy }) => <span class="soft">{byWhom(source, addedBy)}</span>,
          },
          {
            name: 'Last sign-in',
            wide: true,
            cell: ({ hasSignedIn, lastSignInAt }) => (
              <span class="soft">
                {lastSignInAt ? ago(lastSignInAt, now) : hasSignedIn ? 'before' : <Tag>invited</Tag>}
              </span>
            ),
          },
        ]}
        actions={(row) => (
          <Button
            kind="danger"
            small
            needs={row.personID === me ? 'viewer' : 'owner'}
            team={row.team}
            label={row.personID === me ? 'Leave this team' : `Remove ${row.name}`}
            onPress={() => remove(row)}
          >
            {row.personID === me ? 'Leave' : 'Remove'}
          </Button>
        )}
        empty={
          <Empty icon="users" title="Nobody is a member yet">
            <p>
              Add people by their e-mail address, or let groups of the sign-in provider stand for the team.
            </p>
          </Empty>
        }
      />
      {isAdding && <AddDialog onClose={() => setAdding(false)} onDone={live.reload} />}
    </div>
  )
}

const nameOf = ({ name, personID }: MemberRow, me: string | undefined): string =>
  personID === me ? `${name} (you)` : name

const noteOf = ({ hasSignedIn, email }: Member): string =>
  hasSignedIn ? (email ?? 'no verified e-mail address') : 'has not signed in yet'

const byWhom = (source: Member['source'], addedBy: string | undefined): string =>
  source === 'provider' ? 'a group of the provider' : (addedBy ?? 'the operator')

function textOf({ source }: MemberRow): string {
  const keys = 'Keys of this person in the team stop working.'
  return source === 'provider'
    ? `${keys} A group of the provider may bring them back at the next sign-in.`
    : keys
}

/** A role that a group gives is the group's to change. */
function RoleCell({ row, onChange }: { row: MemberRow; onChange: (role: string) => Promise<void> }) {
  if (!may('owner', row.team)) return <Tag>{row.role}</Tag>
  return (
    <Select
      label={`Role of ${row.name}`}
      hideLabel
      value={row.role}
      onChange={(role) => void onChange(role)}
      options={roleOptions.map(([role]) => [role, role] as const)}
    />
  )
}

function AddDialog({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<void> }) {
  const [team, setTeam] = useState(firstTeam())
  const [email, setEmail] = useState('')
  const [role, setRole] = useState('member')
  const submit = async () => {
    const path = `/teams/${encodeURIComponent(team)}/members`
    const added = await ask<Member>(path, { body: { email: email.trim(), role }, team })
    showDone(
      added.hasSignedIn
        ? `${added.name} is in the team.`
        : `${email.trim()} is in the team once they sign in.`,
    )
    await onDone()
  }
  return (
    <FormDialog title="Add a person" action="Add" onSubmit={submit} onClose={onClose}>
      <TeamField value={team} onChange={setTeam} />
      <Field
        label="E-mail address"
        value={email}
        onInput={setEmail}
        placeholder="ada@example.com"
        required
        autofocus
      />
      <Select label="Role" value={role} onChange={setRole} options={roleOptions} />
    </FormDialog>
  )
}
