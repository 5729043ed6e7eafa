import { useState } from 'preact/hooks'
import type { BuiltInTemplate } from '../../contract/rest/built-in.ts'
import type { Template } from '../../contract/rest/template.ts'
import { ago, fullTime, gpusText, sizeOf } from '../browser/format.ts'
import { useLive, useNow } from '../browser/live.ts'
import { ask, askAll } from '../browser/rest.ts'
import { may } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { firstTeam } from '../parts/fields.tsx'
import { Empty, Loaded, ViewHead } from '../parts/layout.tsx'
import { NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { showDone } from '../parts/toasts.tsx'
import { BuiltIns } from './built-ins.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'
import { NewTemplateDialog } from './new-template.tsx'

type TemplateRow = Template & { team: string }
const everyMs = 4000

export const nameOf = ({ names, templateID }: Pick<Template, 'names' | 'templateID'>): string =>
  names[0] ?? templateID

/** Whether any build of the template has succeeded, not only the last one. */
export const canStart = ({ cpuCount }: Pick<Template, 'cpuCount'>): boolean => cpuCount > 0

export async function setVisibility({ templateID, team }: TemplateRow, isPublic: boolean): Promise<void> {
  await ask(`/v2/templates/${templateID}`, { method: 'PATCH', body: { public: isPublic }, team })
  showDone(isPublic ? 'Every team may start it now.' : 'Only its team may start it now.')
}

export function TemplatesView() {
  const live = useTeamList<Template>(
    'templates',
    (team, signal) => askAll('/v2/templates', { team, signal }),
    everyMs,
  )
  const builtIns = useLive<BuiltInTemplate[]>(
    'built-in templates',
    (signal) => ask('/built-in-templates', { team: firstTeam(), signal }),
    everyMs,
  )
  const now = useNow(10_000)
  const [starting, setStarting] = useState<{ template: string; team: string | undefined }>()
  const [isMaking, setMaking] = useState(false)
  const teamOf = (templateID: string) => live.data?.find((row) => row.templateID === templateID)?.team
  const ofWarren = new Set(builtIns.data?.map(({ build }) => build?.templateID))
  const own = { ...live, data: live.data?.filter(({ templateID }) => !ofWarren.has(templateID)) }
  return (
    <div class="view">
      <ViewHead title="Templates" note="What sandboxes start from.">
        <Button needs="member" kind="primary" icon="plus" onPress={() => setMaking(true)}>
          New template
        </Button>
      </ViewHead>
      <TeamList
        label="Templates"
        live={own}
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
            cell: (row) =>
              may('member', row.team) ? (
                <Button
                  small
                  kind="quiet"
                  icon={row.public ? 'globe' : 'lock'}
                  title={row.public ? 'Make it private' : 'Let every team start it'}
                  onPress={() => setVisibility(row, !row.public).then(live.reload)}
                >
                  {row.public ? 'public' : 'private'}
                </Button>
              ) : (
                <Badge state={row.public ? 'public' : 'private'} />
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
            needs="member"
            team={row.team}
            small
            icon="play"
            disabled={!canStart(row)}
            title={canStart(row) ? undefined : 'None of its builds is ready'}
            onPress={() => setStarting({ template: nameOf(row), team: row.team })}
          >
            Start
          </Button>
        )}
        empty={
          <Empty icon="layers" title="No template of your own yet">
            <p>
              Press New template to build one from an image or a Dockerfile, build one that Warren knows
              below, or use <code>Template.build()</code> of the client.
            </p>
          </Empty>
        }
      />
      <Loaded live={builtIns}>
        {(rows) => (
          <BuiltIns
            rows={rows}
            reload={builtIns.reload}
            teamOf={teamOf}
            onStart={(template) => setStarting({ template, team: undefined })}
          />
        )}
      </Loaded>
      {isMaking && <NewTemplateDialog onClose={() => setMaking(false)} />}
      {starting && <NewSandboxDialog {...starting} onClose={() => setStarting(undefined)} />}
    </div>
  )
}
