import { useState } from 'preact/hooks'
import type { Template } from '../../contract/rest/template.ts'
import { useLive } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { Tag } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Field } from '../parts/fields.tsx'
import { Card, Loaded } from '../parts/layout.tsx'
import { nameOf } from './templates.tsx'

type TagRow = { tag: string; buildID: string; createdAt: string }

export function TemplateTags({ template, team }: { template: Template; team: string | undefined }) {
  const { templateID } = template
  const path = `/templates/${encodeURIComponent(templateID)}/tags`
  const live = useLive(`tags ${templateID}`, (signal) => ask<TagRow[]>(path, { team, signal }))
  const [isAdding, setAdding] = useState(false)
  const remove = async (tag: string) => {
    await ask('/templates/tags', { method: 'DELETE', body: { name: nameOf(template), tags: [tag] }, team })
    await live.reload()
  }
  return (
    <Card
      title="Tags"
      actions={
        <Button needs="member" small icon="plus" onPress={() => setAdding(true)}>
          Tag
        </Button>
      }
    >
      <Loaded live={live}>
        {(tags) =>
          tags.length === 0 ? (
            <p class="faint">None. A tag names one build: name:tag starts it.</p>
          ) : (
            <div class="stack tight">
              {tags.map(({ tag, buildID }) => (
                <div key={tag} class="tags">
                  <Tag>{tag}</Tag>
                  <span class="faint mono">{buildID.slice(0, 8)}</span>
                  <Button
                    needs="member"
                    kind="quiet"
                    small
                    icon="x"
                    label={`Remove the tag ${tag}`}
                    onPress={() => remove(tag)}
                  />
                </div>
              ))}
            </div>
          )
        }
      </Loaded>
      {isAdding && (
        <AddTag template={template} team={team} onClose={() => setAdding(false)} onDone={live.reload} />
      )}
    </Card>
  )
}

type AddProps = {
  template: Template
  team: string | undefined
  onClose: () => void
  onDone: () => Promise<void>
}

function AddTag({ template, team, onClose, onDone }: AddProps) {
  const [tag, setTag] = useState('')
  const submit = async () => {
    await ask('/templates/tags', {
      body: { target: nameOf(template), tags: [tag.trim()] },
      team,
      repeatable: true,
    })
    await onDone()
  }
  return (
    <FormDialog title="Tag the latest build" action="Tag it" onSubmit={submit} onClose={onClose}>
      <Field label="Tag" value={tag} onInput={setTag} placeholder="stable" required autofocus mono />
    </FormDialog>
  )
}
