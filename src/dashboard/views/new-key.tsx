import { useState } from 'preact/hooks'
import { now } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { isPerson, may } from '../browser/session.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { Check, Field, firstTeam, Select, TeamField } from '../parts/fields.tsx'
import { roleOptions } from './role-options.ts'

type NewKeyProps = { onClose: () => void; onMade: (key: string) => void; onDone: () => Promise<void> }

const dayMs = 24 * 3_600_000
const ends = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
] as const

/** A role no higher than the maker's; only an owner makes keys that stay when their maker leaves. */
export function NewKey({ onClose, onMade, onDone }: NewKeyProps) {
  const [team, setTeam] = useState(firstTeam())
  const [name, setName] = useState('')
  const allowed = roleOptions.filter(([role]) => may(role, team))
  const [chosen, setRole] = useState('')
  const role = chosen || allowed.at(-1)?.[0] || 'viewer'
  const [days, setDays] = useState('')
  const [isService, setService] = useState(false)
  const mayServe = isPerson() && may('owner', team)
  const submit = async () => {
    const { key } = await ask<{ key: string }>('/api-keys', {
      body: {
        name: name.trim(),
        role,
        ...(days !== '' && { expiresAt: new Date(now() + Number(days) * dayMs).toISOString() }),
        ...(mayServe && isService && { service: true }),
      },
      team,
    })
    onMade(key)
    await onDone()
  }
  return (
    <FormDialog title="New API key" action="Create" onSubmit={submit} onClose={onClose}>
      <TeamField value={team} onChange={setTeam} />
      <Field label="Name" value={name} onInput={setName} placeholder="laptop" required autofocus />
      <Select label="Role" value={role} onChange={setRole} options={allowed} />
      <Select label="Ends" value={days} onChange={setDays} options={ends} />
      {mayServe && (
        <Check
          label="For a service"
          checked={isService}
          onChange={setService}
          hint="It belongs to the team, and stays when you leave. Otherwise it is yours, and does what you may."
        />
      )}
    </FormDialog>
  )
}
