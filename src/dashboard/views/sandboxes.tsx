/** All sandboxes, live: filtered, selected and killed by many, and smooth with thousands. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { count } from '../browser/format.ts'
import { useLive } from '../browser/live.ts'
import { address, navigate, pathTo } from '../browser/router.ts'
import { domain } from '../browser/sandbox-client.ts'
import { killMany, listSandboxes, type TeamSandbox } from '../browser/sandboxes.ts'
import { matches } from '../browser/search.ts'
import { session, showsTeams } from '../browser/session.ts'
import { firstSteps } from '../browser/snippets.ts'
import { Button } from '../parts/button.tsx'
import { Snippets } from '../parts/copy.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Choice, Select } from '../parts/fields.tsx'
import { Empty, Loaded, ViewHead } from '../parts/layout.tsx'
import { SearchField } from '../parts/search-field.tsx'
import { showDone, showFailure } from '../parts/toasts.tsx'
import { NewSandboxDialog } from './new-sandbox.tsx'
import { SandboxRows } from './sandbox-rows.tsx'

type StateFilter = 'all' | 'running' | 'paused'
const everyMs = 3000

export function SandboxesView() {
  const scope = session.use()?.scope ?? 'all'
  const live = useLive<TeamSandbox[]>(`sandboxes ${scope}`, listSandboxes, everyMs)
  const { query } = address.use()
  const [text, setText] = useState(query.get('q') ?? '')
  const [state, setState] = useState<StateFilter>('all')
  const [template, setTemplate] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [isMaking, setMaking] = useState(false)
  useEffect(() => {
    if (query.get('new') === null) return
    setMaking(true)
    navigate(pathTo(['sandboxes']), true)
  }, [query])
  const all = live.data ?? []
  const shown = useMemo(
    () =>
      all.filter(
        (row) =>
          (state === 'all' || row.state === state) &&
          (template === '' || templateOf(row) === template) &&
          matches(row, text),
      ),
    [all, state, template, text],
  )
  const selected = shown.filter(({ sandboxID }) => chosen.has(sandboxID))
  const killSelected = () =>
    confirmFirst(
      `Kill ${count(selected.length, 'sandbox', 'sandboxes')}?`,
      'Their processes end and their files are deleted. This cannot be undone.',
      'Kill',
      async () => {
        const { failed, why } = await killMany(selected)
        setChosen(new Set())
        if (failed > 0) showFailure(why)
        else showDone(`Killed ${count(selected.length, 'sandbox', 'sandboxes')}.`)
        await live.reload()
      },
    )
  return (
    <div class="view fills">
      <ViewHead title="Sandboxes" note={<Totals rows={live.data} />}>
        <Button needs="member" kind="primary" icon="plus" onPress={() => setMaking(true)}>
          New sandbox
        </Button>
      </ViewHead>
      <Loaded live={live}>
        {() =>
          all.length === 0 ? (
            <Empty icon="box" title="No sandbox runs yet">
              <p>
                Each is an isolated computer for code that nobody has read. Make one here, or from a program:
              </p>
              <Snippets snippets={firstSteps(location.origin, domain())} />
            </Empty>
          ) : (
            <>
              <div class="toolbar">
                <SearchField
                  label="Search sandboxes"
                  placeholder="Id, template, or key=value"
                  value={text}
                  onInput={setText}
                />
                <Choice
                  label="State"
                  value={state}
                  onChange={setState}
                  options={[
                    ['all', 'All'],
                    ['running', 'Running'],
                    ['paused', 'Paused'],
                  ]}
                />
                <TemplateFilter rows={all} value={template} onChange={setTemplate} />
              </div>
              <SandboxRows rows={shown} chosen={chosen} onChoose={setChosen} showTeam={showsTeams()}>
                {selected.length > 0 && (
                  <div class="selection" role="toolbar" aria-label="Selected sandboxes">
                    <span>{count(selected.length, 'selected', 'selected')}</span>
                    <Button small onPress={() => setChosen(new Set())}>
                      Clear
                    </Button>
                    <Button needs="member" small kind="danger" icon="trash" onPress={killSelected}>
                      Kill
                    </Button>
                  </div>
                )}
              </SandboxRows>
            </>
          )
        }
      </Loaded>
      {isMaking && <NewSandboxDialog onClose={() => setMaking(false)} />}
    </div>
  )
}

const templateOf = ({ alias, templateID }: TeamSandbox): string => alias ?? templateID

function Totals({ rows }: { rows: TeamSandbox[] | undefined }) {
  if (!rows) return null
  const running = rows.filter(({ state }) => state === 'running').length
  return (
    <span class="figures">
      {running.toLocaleString('en')} running, {(rows.length - running).toLocaleString('en')} paused
    </span>
  )
}

function TemplateFilter(props: { rows: TeamSandbox[]; value: string; onChange: (value: string) => void }) {
  const names = useMemo(() => [...new Set(props.rows.map(templateOf))].sort(), [props.rows])
  return (
    <Select
      label="Template"
      hideLabel
      value={props.value}
      onChange={props.onChange}
      options={[['', 'Any template'], ...names.map((name) => [name, name] as const)]}
    />
  )
}
