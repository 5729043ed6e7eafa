/** `base` and the templates that Warren builds by itself. A team builds one that is missing, the operator any. */
import { useState } from 'preact/hooks'
import type { BuiltInTemplate } from '../../contract/rest/built-in.ts'
import { count, gpusText, plainText, sizeOf } from '../browser/format.ts'
import { ask } from '../browser/rest.ts'
import { isAdmin } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { Dialog, FormDialog } from '../parts/dialog.tsx'
import { Check, firstTeam } from '../parts/fields.tsx'
import { Card, Table } from '../parts/layout.tsx'
import { NameCell } from '../parts/team-list.tsx'
import { BuildLog } from './build-log.tsx'

const pathOf = (name: string): string => `/built-in-templates/${encodeURIComponent(name)}`

const stateOf = ({ ready, build }: BuiltInTemplate): string => {
  if (build?.status === 'building') return 'building'
  if (ready) return 'ready'
  return build?.status === 'error' ? 'failed' : 'not built'
}

/** The server makes `base` itself; while a build is under way there is nothing to begin. */
const canBuild = ({ seconds, ready, build }: BuiltInTemplate): boolean =>
  seconds !== undefined && build?.status !== 'building' && (isAdmin() || !ready)

type BuiltInsProps = {
  rows: readonly BuiltInTemplate[]
  reload: () => Promise<void>
  /** The team whose template this is, where the reader may see that team. */
  teamOf: (templateID: string) => string | undefined
  onStart: (alias: string) => void
}

export function BuiltIns({ rows, reload, teamOf, onStart }: BuiltInsProps) {
  const [building, setBuilding] = useState<BuiltInTemplate>()
  const [followed, setFollowed] = useState<string>()
  const shown = rows.find(({ name }) => name === followed)
  return (
    <Card title="Built in" flush>
      <Table
        label="Built-in templates"
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          { name: 'Template', cell: (row) => <About row={row} team={teamOf(row.build?.templateID ?? '')} /> },
          { name: 'State', cell: (row) => <Badge state={stateOf(row)} /> },
          {
            name: 'Size',
            wide: true,
            cell: (row) => <span class="whole">{sizeText(row)}</span>,
          },
          {
            name: 'Build time',
            wide: true,
            cell: ({ seconds }) => <span class="whole">{timeOf(seconds)}</span>,
          },
          {
            name: '',
            end: true,
            cell: (row) => (
              <div class="actions">
                {row.build && (
                  <Button
                    small
                    icon="list"
                    title={`Log of the last build of ${row.name}`}
                    onPress={() => setFollowed(row.name)}
                  >
                    Log
                  </Button>
                )}
                {canBuild(row) && (
                  <Button
                    needs="member"
                    small
                    icon="layers"
                    title={`Build ${row.name}`}
                    onPress={() => setBuilding(row)}
                  >
                    {row.ready ? 'Rebuild' : 'Build'}
                  </Button>
                )}
                {row.ready && (
                  <Button
                    needs="member"
                    small
                    icon="play"
                    title={`Start ${row.name}`}
                    onPress={() => onStart(row.alias)}
                  >
                    Start
                  </Button>
                )}
              </div>
            ),
          },
        ]}
      />
      {building && (
        <BuildDialog
          row={building}
          onClose={() => setBuilding(undefined)}
          onStarted={async () => {
            await reload()
            setFollowed(building.name)
          }}
        />
      )}
      {shown && <LogDialog row={shown} onClose={() => setFollowed(undefined)} onStart={onStart} />}
    </Card>
  )
}

const sizeText = ({ cpuCount, memoryMB, gpuCount }: BuiltInTemplate): string =>
  sizeOf(cpuCount, memoryMB) + gpusText(gpuCount)

const timeOf = (seconds: number | undefined): string =>
  seconds === undefined ? '–' : `about ${count(Math.ceil(seconds / 60), 'minute')}`

function About({ row, team }: { row: BuiltInTemplate; team: string | undefined }) {
  const { alias, build } = row
  const isFailed = build?.status === 'error'
  return (
    <span class="two">
      {build && team !== undefined ? (
        <NameCell name={alias} view={['templates', build.templateID]} team={team} />
      ) : (
        <NameCell name={alias} />
      )}
      <span class="faint wrapped">{row.about}</span>
      {isFailed && (
        <span class="failure wrapped">
          {row.ready ? 'The last build failed: ' : ''}
          {plainText(build.reason ?? 'The server gives no reason.')}
        </span>
      )}
    </span>
  )
}

type BuildDialogProps = { row: BuiltInTemplate; onClose: () => void; onStarted: () => Promise<void> }

function BuildDialog({ row, onClose, onStarted }: BuildDialogProps) {
  const [isFull, setFull] = useState(false)
  const { name, note, seconds } = row
  const build = async () => {
    if (isAdmin()) await ask(`/admin${pathOf(name)}`, { body: { full: isFull } })
    else await ask(pathOf(name), { method: 'POST' })
    await onStarted()
  }
  return (
    <FormDialog title={`Build ${name}?`} action="Build" onSubmit={build} onClose={onClose}>
      <p>
        {row.about} The build takes {timeOf(seconds)} and downloads its packages. Every team can then start
        sandboxes of it, each with {sizeText(row)}.
      </p>
      {note !== undefined && <p>{note}</p>}
      {row.ready && <p>Sandboxes that run are not affected. New ones start from the new build.</p>}
      {isAdmin() && (
        <Check
          label="With everything that the template can hold"
          hint="Takes several times as long and more disk."
          checked={isFull}
          onChange={setFull}
        />
      )}
    </FormDialog>
  )
}

type LogDialogProps = { row: BuiltInTemplate; onClose: () => void; onStart: (alias: string) => void }

/** It may be closed at any time: the build goes on. */
function LogDialog({ row, onClose, onStart }: LogDialogProps) {
  const { name, alias, build } = row
  if (!build) return null
  return (
    <Dialog title={`Build of ${name}`} wide onClose={onClose}>
      <div class="dialog-body">
        <p class="state" role="status">
          <Badge state={stateOf(row)} />
          {build.status === 'building' && <span class="faint">You may close this; the build goes on.</span>}
        </p>
        <BuildLog key={build.buildID} build={build} path={pathOf(name)} team={firstTeam()} />
      </div>
      <footer>
        {row.ready && (
          <Button
            icon="play"
            onPress={() => {
              onClose()
              onStart(alias)
            }}
          >
            New sandbox
          </Button>
        )}
        <Button kind="primary" onPress={onClose}>
          Close
        </Button>
      </footer>
    </Dialog>
  )
}
