/** A template of an image or of a pasted Dockerfile. Its page shows the log of the build as it comes. */
import { useState } from 'preact/hooks'
import type { RequestedTemplate } from '../../contract/rest/template.ts'
import { emptyTemplateForm, type TemplateForm, templateRequests } from '../browser/new-template.ts'
import { ask } from '../browser/rest.ts'
import { navigate, pathTo } from '../browser/router.ts'
import { hasTeams } from '../browser/session.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { Choice, Field, firstTeam, TeamField } from '../parts/fields.tsx'

const dockerfileLines = 9

export function NewTemplateDialog({ onClose }: { onClose: () => void }) {
  const [team, setTeam] = useState(firstTeam())
  const [form, setForm] = useState(emptyTemplateForm)
  const set = (key: keyof TemplateForm) => (value: string) => setForm((last) => ({ ...last, [key]: value }))
  const build = async () => {
    const { request, start } = templateRequests(form)
    const made = await ask<RequestedTemplate>('/v3/templates', { body: request, team })
    const { templateID, buildID } = made
    await ask(`/v2/templates/${templateID}/builds/${buildID}`, { body: start, team })
    navigate(pathTo(['templates', templateID], { team: hasTeams() ? team : undefined }))
  }
  return (
    <FormDialog title="New template" action="Build" onSubmit={build} onClose={onClose}>
      <TeamField value={team} onChange={setTeam} />
      <Field
        label="Name"
        value={form.name}
        onInput={set('name')}
        required
        mono
        placeholder="my-template"
        hint="Lowercase letters, digits, - and _. A name that the team has already gets a new build."
      />
      <Choice
        label="Made from"
        value={form.source}
        onChange={(source) => setForm((last) => ({ ...last, source }))}
        options={[
          ['image', 'Image'],
          ['dockerfile', 'Dockerfile'],
        ]}
      />
      {form.source === 'image' ? (
        <ImageFields form={form} set={set} />
      ) : (
        <Field
          label="Dockerfile"
          value={form.dockerfile}
          onInput={set('dockerfile')}
          required
          mono
          lines={dockerfileLines}
          placeholder={'FROM e2bdev/base\nRUN pip install pandas'}
          hint="FROM e2bdev/base starts from base. ENTRYPOINT and CMD become the start command."
        />
      )}
      <div class="fields-row">
        <Field
          label="CPUs"
          kind="number"
          value={form.cpuCount}
          onInput={set('cpuCount')}
          placeholder="default"
        />
        <Field
          label="Memory in MiB"
          kind="number"
          value={form.memoryMB}
          onInput={set('memoryMB')}
          placeholder="default"
        />
      </div>
      <details>
        <summary>Start command</summary>
        <Field
          label="Command that runs in every sandbox from its start"
          value={form.startCmd}
          onInput={set('startCmd')}
          mono
        />
        <Field
          label="Readiness check (exits 0 when ready)"
          value={form.readyCmd}
          onInput={set('readyCmd')}
          mono
          hint="Empty: Warren waits 20 seconds."
        />
      </details>
    </FormDialog>
  )
}

type ImageProps = { form: TemplateForm; set: (key: keyof TemplateForm) => (value: string) => void }

function ImageFields({ form, set }: ImageProps) {
  return (
    <>
      <Field
        label="Image"
        value={form.image}
        onInput={set('image')}
        required
        mono
        placeholder="python:3.13"
        hint="A name as in docker pull."
      />
      <details>
        <summary>Private registry</summary>
        <Field label="User name" value={form.user} onInput={set('user')} />
        <Field
          label="Password or token"
          kind="password"
          value={form.password}
          onInput={set('password')}
          hint="Warren keeps it in memory until it has pulled the image, and never on disk."
        />
      </details>
    </>
  )
}
