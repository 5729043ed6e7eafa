import { useState } from 'preact/hooks'
import type { Template } from '../../contract/rest/template.ts'
import { ago, megabytes } from '../browser/format.ts'
import { useLive, useNow } from '../browser/live.ts'
import { ask, askAll } from '../browser/rest.ts'
import { pathTo } from '../browser/router.ts'
import { isAdmin, ofTeams, session, teamName, teamsInScope } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { tellDone } from '../parts/toasts.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'

type TemplateRow = Template & { team: string }
const everyMs = 4000

export const nameOf = ({ names, templateID }: Pick<Template, 'names' | 'templateID'>): string =>
  names[0] ?? templateID

export async function setVisibility({ templateID, team }: TemplateRow, isPublic: boolean): Promise<void> {
  await ask(`/v2/templates/${templateID}`, { method: 'PATCH', body: { public: isPublic }, team })
  tellDone(isPublic ? 'Every team may start it now.' : 'Only its team may start it now.')
}

const builtIns = `bin/warren template add code-interpreter   # run code as in a notebook
bin/warren template add desktop            # a screen, a mouse and a keyboard
bin/warren template build my-template      # from the Dockerfile of this folder`

export function TemplatesView() {
  const scope = session.use()?.scope ?? 'all'
  const load = (signal: AbortSignal) => ofTeams((team) => askAll<Template>('/v2/templates', { team, signal }))
  const live = useLive<TemplateRow[]>(`templates ${scope}`, load, everyMs)
  const [starting, setStarting] = useState<TemplateRow>()
  return (
    <div class="view">
      <ViewHead title="Templates" note="What sandboxes start from." />
      <Loaded live={live}>
        {(templates) =>
          templates.length === 0 ? (
            <Empty icon="layers" title="No template of your own yet">
              <p>
                Every team can start <code>base</code>. Build more from a Dockerfile or with{' '}
                <code>Template.build()</code> of the client, or add one that Warren knows:
              </p>
              <CodeBlock code={builtIns} label="Commands that make templates" />
            </Empty>
          ) : (
            <TemplateTable rows={templates} reload={live.reload} onStart={setStarting} />
          )
        }
      </Loaded>
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

type TableProps = { rows: TemplateRow[]; reload: () => Promise<void>; onStart: (row: TemplateRow) => void }

function TemplateTable({ rows, reload, onStart }: TableProps) {
  const now = useNow(10_000)
  const teamColumn =
    teamsInScope().length > 1
      ? [{ name: 'Team', cell: ({ team }: TemplateRow) => teamName(team), wide: true }]
      : []
  const href = ({ templateID, team }: TemplateRow) =>
    pathTo(['templates', templateID], { team: isAdmin() ? team : undefined })
  return (
    <Card flush>
      <Table
        label="Templates"
        rows={rows}
        keyOf={({ templateID }) => templateID}
        columns={[
          {
            name: 'Template',
            cell: (row) => (
              <span class="two">
                <a class="name" href={href(row)}>
                  {nameOf(row)}
                </a>
                <span class="faint mono">{row.templateID}</span>
              </span>
            ),
          },
          ...teamColumn,
          { name: 'Last build', cell: ({ buildStatus }) => <Badge state={buildStatus} /> },
          {
            name: 'Visibility',
            wide: true,
            cell: (row) => (
              <Button
                small
                kind="quiet"
                icon={row.public ? 'globe' : 'lock'}
                title={row.public ? 'Take it back' : 'Let every team start it'}
                onPress={() => setVisibility(row, !row.public).then(reload)}
              >
                {row.public ? 'public' : 'private'}
              </Button>
            ),
          },
          {
            name: 'Size',
            wide: true,
            cell: ({ cpuCount, memoryMB }) => `${cpuCount} CPU, ${megabytes(memoryMB)}`,
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
            cell: ({ updatedAt }) => <span class="soft">{ago(updatedAt, now)}</span>,
          },
          {
            name: '',
            end: true,
            cell: (row) => (
              <Button small icon="play" onPress={() => onStart(row)}>
                Start
              </Button>
            ),
          },
        ]}
      />
    </Card>
  )
}
