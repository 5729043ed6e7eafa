/** Sets the limits of a team. */
import { useState } from 'preact/hooks'
import { bytes } from '../browser/format.ts'
import { reloadTeams } from '../browser/log-in.ts'
import { ask } from '../browser/rest.ts'
import type { KnownTeam } from '../browser/session.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { Field } from '../parts/fields.tsx'

export function LimitsDialog({ team, onClose }: { team: KnownTeam; onClose: () => void }) {
  const limits = team.limits!
  const [sandboxes, setSandboxes] = useState(String(limits.maxSandboxes))
  const [cpu, setCPU] = useState(String(limits.maxCPU))
  const [memory, setMemory] = useState(String(limits.maxMemoryMB))
  const [hours, setHours] = useState(String(limits.maxLifetimeHours))
  const [gpus, setGPUs] = useState(String(limits.maxGPUs))
  const submit = async () => {
    const body = {
      maxSandboxes: Number(sandboxes),
      maxCPU: Number(cpu),
      maxMemoryMB: Number(memory),
      maxLifetimeHours: Number(hours),
      maxGPUs: Number(gpus),
    }
    await ask(`/admin/teams/${team.teamID}/limits`, { method: 'PATCH', body })
    await reloadTeams()
  }
  return (
    <FormDialog title={`Limits of ${team.name}`} action="Set" onSubmit={submit} onClose={onClose}>
      <Field label="Sandboxes" kind="number" value={sandboxes} onInput={setSandboxes} required autofocus />
      <Field label="CPUs" kind="number" value={cpu} onInput={setCPU} required />
      <Field
        label="Memory in MiB"
        kind="number"
        value={memory}
        onInput={setMemory}
        required
        hint={bytes(Number(memory) * 1024 ** 2)}
      />
      <Field label="GPUs" kind="number" value={gpus} onInput={setGPUs} required />
      <Field label="Longest life in hours" kind="number" value={hours} onInput={setHours} required />
    </FormDialog>
  )
}
