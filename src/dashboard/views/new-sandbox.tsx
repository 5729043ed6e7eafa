import { useState } from 'preact/hooks'
import type { BuiltInTemplate } from '../../contract/rest/built-in.ts'
import type { Sandbox } from '../../contract/rest/sandbox.ts'
import type { Template } from '../../contract/rest/template.ts'
import { useLive } from '../browser/live.ts'
import { parsePairs } from '../browser/pairs.ts'
import { ask, askAll } from '../browser/rest.ts'
import { navigate, pathTo } from '../browser/router.ts'
import { hasTeams } from '../browser/session.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { Check, Field, firstTeam, Select, TeamField } from '../parts/fields.tsx'
import { showDone } from '../parts/toasts.tsx'

type NewSandboxProps = { onClose: () => void; template?: string; team?: string | undefined }

export function NewSandboxDialog({ onClose, template: given, team: givenTeam }: NewSandboxProps) {
  const [team, setTeam] = useState(givenTeam ?? firstTeam())
  const [template, setTemplate] = useState(given ?? 'base')
  const [minutes, setMinutes] = useState('15')
  const [metadata, setMetadata] = useState('')
  const [hasInternet, setInternet] = useState(true)
  const [pauses, setPauses] = useState(false)
  const templates = useLive(given ? '' : `template names ${team}`, () => templateNames(team))
  const create = async () => {
    const body = {
      templateID: template,
      timeout: Math.round(Number(minutes) * 60),
      metadata: parsePairs(metadata),
      allow_internet_access: hasInternet,
      ...(pauses && { autoPause: true }),
    }
    const { sandboxID } = await ask<Sandbox>('/v2/sandboxes', { body, team, once: true })
    showDone(`${sandboxID} runs.`)
    navigate(pathTo(['sandboxes', sandboxID], { team: hasTeams() ? team : undefined }))
  }
  const names = templates.data ?? ['base']
  return (
    <FormDialog title="New sandbox" action="Create" onSubmit={create} onClose={onClose}>
      <TeamField value={team} onChange={setTeam} />
      {given ? (
        <p>
          From <code>{given}</code>
        </p>
      ) : (
        <Select
          label="Template"
          value={template}
          onChange={setTemplate}
          options={names.map((name) => [name, name] as const)}
        />
      )}
      <Field label="Timeout in minutes" kind="number" value={minutes} onInput={setMinutes} required />
      <Field
        label="Metadata"
        value={metadata}
        onInput={setMetadata}
        lines={2}
        mono
        placeholder="user=42"
        hint="One key=value per line. You can search the list by it."
      />
      <Check label="Internet access" checked={hasInternet} onChange={setInternet} />
      <Check label="Pause at the timeout instead of killing" checked={pauses} onChange={setPauses} />
    </FormDialog>
  )
}

/** Those that every team has, and those of the team, by their names. */
async function templateNames(team: string): Promise<string[]> {
  const [builtIns, templates] = await Promise.all([
    ask<BuiltInTemplate[]>('/built-in-templates', { team }),
    askAll<Template>('/v2/templates', { team }),
  ])
  const ready = templates.filter(({ buildStatus }) => buildStatus === 'ready')
  const own = ready.map(({ names, templateID }) => names[0] ?? templateID)
  return [...new Set(['base', ...builtIns.filter((one) => one.ready).map(({ alias }) => alias), ...own])]
}
