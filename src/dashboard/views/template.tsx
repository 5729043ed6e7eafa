/** One template: its builds with their logs and step times, and its tags. */
import { useState } from 'preact/hooks'
import type { Template, TemplateBuild } from '../../contract/rest/template.ts'
import { ago, count, fullTime, gpusText, mebibytes, shortDuration, sizeOf } from '../browser/format.ts'
import { now, useLive, useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { navigate, pathTo } from '../browser/router.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { CodeBlock, CopyButton } from '../parts/copy.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Card, Facts, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { showDone } from '../parts/toasts.tsx'
import { BuildLog } from './build-log.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'
import { TemplateTags } from './template-tags.tsx'
import { canStart, nameOf, setVisibility } from './templates.tsx'

type WithBuilds = Template & { builds: TemplateBuild[] }
const everyMs = 3000

export function TemplateView({ templateID, team }: { templateID: string; team: string | undefined }) {
  const path = `/templates/${encodeURIComponent(templateID)}`
  const live = useLive(`template ${templateID}`, (signal) => ask<WithBuilds>(path, { team, signal }), everyMs)
  const [isStarting, setStarting] = useState(false)
  const [chosen, setChosen] = useState<string>()
  const builds = live.data?.builds ?? []
  const shown = builds.find(({ buildID }) => buildID === chosen) ?? builds[0]
  const remove = () =>
    confirmFirst(
      'Delete this template?',
      'Its builds go with it. While sandboxes use it, Warren refuses.',
      'Delete',
      async () => {
        await ask(path, { method: 'DELETE', team })
        showDone('The template is deleted.')
        navigate(pathTo(['templates']))
      },
    )
  return (
    <div class="view">
      <Loaded live={live}>
        {(template) => (
          <>
            <ViewHead
              trail={[[pathTo(['templates']), 'Templates']]}
              title={
                <>
                  {nameOf(template)}
                  <Badge state={template.buildStatus} />
                </>
              }
              note={
                <>
                  <span class="mono">{templateID}</span>
                  <CopyButton text={templateID} label="Copy the id" />
                </>
              }
            >
              <Button
                needs="member"
                team={team}
                kind="primary"
                icon="play"
                disabled={!canStart(template)}
                title={canStart(template) ? undefined : 'None of its builds is ready'}
                onPress={() => setStarting(true)}
              >
                New sandbox
              </Button>
              <Button
                needs="member"
                team={team}
                icon={template.public ? 'lock' : 'globe'}
                onPress={() =>
                  setVisibility({ ...template, team: team ?? '' }, !template.public).then(live.reload)
                }
              >
                {template.public ? 'Make private' : 'Make public'}
              </Button>
              <Button needs="member" team={team} kind="danger" icon="trash" onPress={remove}>
                Delete
              </Button>
            </ViewHead>
            <div class="columns">
              <div class="stack">
                <Builds builds={template.builds} chosen={chosen} onChoose={setChosen} />
                {shown && (
                  <Card title={`Log of build ${shown.buildID.slice(0, 8)}`}>
                    <BuildLog
                      key={shown.buildID}
                      build={shown}
                      path={`${path}/builds/${shown.buildID}/status`}
                      team={team}
                    />
                  </Card>
                )}
              </div>
              <div class="stack">
                <About template={template} />
                <TemplateTags template={template} team={team} />
              </div>
            </div>
            {isStarting && (
              <NewSandboxDialog template={nameOf(template)} team={team} onClose={() => setStarting(false)} />
            )}
          </>
        )}
      </Loaded>
    </div>
  )
}

function About({ template }: { template: WithBuilds }) {
  const { names, cpuCount, memoryMB, diskSizeMB, gpuCount, spawnCount, lastSpawnedAt, createdAt } = template
  return (
    <Card title="About">
      <Facts
        facts={[
          ['Names', names.join(', ') || '–'],
          ['Visibility', template.public ? 'every team may start it' : 'only its team may start it'],
          [
            'Size',
            canStart(template)
              ? `${sizeOf(cpuCount, memoryMB)}, ${mebibytes(diskSizeMB)} disk${gpusText(gpuCount)}`
              : 'known after a build',
          ],
          [
            'Started',
            lastSpawnedAt ? `${count(spawnCount, 'time')}, last ${ago(lastSpawnedAt, now())}` : 'never',
          ],
          ['Created', fullTime(createdAt)],
        ]}
      />
      {canStart(template) && (
        <CodeBlock code={`Sandbox.create('${nameOf(template)}')`} label="Start it from a program" />
      )}
    </Card>
  )
}

type BuildsProps = {
  builds: TemplateBuild[]
  chosen: string | undefined
  onChoose: (buildID: string) => void
}

function Builds({ builds, chosen, onChoose }: BuildsProps) {
  const time = useNow(5000)
  const durationOf = ({ createdAt, finishedAt }: TemplateBuild) =>
    shortDuration((finishedAt ? Date.parse(finishedAt) : time) - Date.parse(createdAt))
  return (
    <Card title="Builds" flush>
      <Table
        label="Builds"
        rows={builds}
        keyOf={({ buildID }) => buildID}
        columns={[
          { name: 'Build', cell: ({ buildID }) => <span class="mono">{buildID.slice(0, 8)}</span> },
          { name: 'State', cell: ({ status }) => <Badge state={status} /> },
          {
            name: 'Started',
            cell: ({ createdAt }) => <span title={fullTime(createdAt)}>{ago(createdAt, time)}</span>,
          },
          { name: 'Took', end: true, wide: true, cell: durationOf },
          {
            name: '',
            end: true,
            cell: ({ buildID }) => (
              <Button
                small
                pressed={buildID === (chosen ?? builds[0]?.buildID)}
                icon="list"
                onPress={() => onChoose(buildID)}
              >
                Log
              </Button>
            ),
          },
        ]}
      />
    </Card>
  )
}
