import { useState } from 'preact/hooks'
import type { Template } from '../../contract/rest/template.ts'
import { ago, fullTime, gpusText, sizeOf } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { ask, askAll } from '../browser/rest.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { tellDone } from '../parts/toasts.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'

type TemplateRow = Template & { team: string }
const everyMs = 4000

export const nameOf = ({ names, templateID }: Pick<Template, 'names' | 'templateID'>): string =>
  names[0] ?? templateID

/** Whether any build of the template has succeeded, not only the last one. */
export const canStart = ({ cpuCount }: Pick<Template, 'cpuCount'>): boolean => cpuCount > 0

export async function setVisibility({ templateID, team }: TemplateRow, isPublic: boolean): Promise<void> {
  await ask(`/v2/templates/${templateID}`, { method: 'PATCH', body: { public: isPublic }, team })
  tellDone(isPublic ? 'Every team may start it now.' : 'Only its team may start it now.')
}

const builtIns = `bin/warren template add code-interpreter   # run code as in a notebook
bin/warren template add desktop            # a screen, a mouse and a keyboard
bin/warren template build my-template      # from the Dockerfile of this folder`

export function TemplatesView() {
  const live = useTeamList<Template>(
    'templates',
    (team, signal) => askAll('/v2/templates', { team, signal }),
    everyMs,
  )
  const now = useNow(10_000)
  const [starting, setStarting] = useState<TemplateRow>()
  return (
    <div class="view">
      <ViewHead title="Templates" note="What sandboxes start from." />
      <TeamList
        label="Templates"
        live={live}
        keyOf={({ templateID }) => templateID}
        columns={[
          {
            name: 'Template',
            cell: (row) => (
              <NameCell
                name={nameOf(row)}
                note={row.templateID}
                view={['templates', row.templateID]}
                team={row.team}
              />
            ),
          },
          { name: 'Last build', cell: ({ buildStatus }) => <Badge state={buildStatus} /> },
          {
            name: 'Visibility',
            wide: true,
            cell: (row) => (
              <Button
                small
                kind="quiet"
                icon={row.public ? 'globe' : 'lock'}
                title={row.public ? 'Make it private' : 'Let every team start it'}
                onPress={() => setVisibility(row, !row.public).then(live.reload)}
              >
                {row.public ? 'public' : 'private'}
              </Button>
            ),
          },
          {
            name: 'Size',
            wide: true,
            cell: ({ cpuCount, memoryMB, gpuCount }) => (
              <span class="whole">{sizeOf(cpuCount, memoryMB) + gpusText(gpuCount)}</span>
            ),
          },
          {
            name: 'Started',
            wide: true,
            end: true,
            cell: ({ spawnCount }) => spawnCount.toLocaleString('en'),
          },
          {
            name: 'Changed',
            wide: true,
            cell: ({ updatedAt }) => (
              <span class="soft whole" title={fullTime(updatedAt)}>
                {ago(updatedAt, now)}
              </span>
            ),
          },
        ]}
        actions={(row) => (
          <Button
            small
            icon="play"
            disabled={!canStart(row)}
            title={canStart(row) ? undefined : 'None of its builds is ready'}
            onPress={() => setStarting(row)}
          >
            Start
          </Button>
        )}
        empty={
          <Empty icon="layers" title="No template of your own yet">
            <p>
              Every team can start <code>base</code>. Build more from a Dockerfile or with{' '}
              <code>Template.build()</code> of the client, or add one that Warren knows:
            </p>
            <CodeBlock code={builtIns} label="Commands that make templates" />
          </Empty>
        }
      />
      {starting && (
        <NewSandboxDialog
          template={nameOf(starting)}
          team={starting.team}
          onClose={() => setStarting(undefined)}
        />
      )}
    </div>
  )
}
