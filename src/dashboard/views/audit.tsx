/** Who changed what. */
import { useState } from 'preact/hooks'
import type { AuditEntry } from '../../contract/rest/audit.ts'
import { fullTime } from '../browser/format.ts'
import { useLive } from '../browser/live.ts'
import { send } from '../browser/rest.ts'
import { hasTeams, isAdmin, may, session, teamName, teamsInScope } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { Choice, Select } from '../parts/fields.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { SearchField } from '../parts/search-field.tsx'

const followEveryMs = 2000
const lookEveryMs = 15_000
const perPage = 50

/** Actions that begin with this. */
const kinds = [
  ['', 'Any action'],
  ['sandbox.', 'Sandboxes'],
  ['template.', 'Templates'],
  ['volume.', 'Volumes'],
  ['secret.', 'Secrets'],
  ['webhook.', 'Webhooks'],
  ['key.', 'API keys'],
  ['token.', 'Access tokens'],
  ['member.', 'Members'],
  ['session.', 'Sessions'],
  ['team.', 'Teams'],
] as const

type Filter = { kind: string; object: string; personID: string }
type Found = { rows: AuditEntry[]; hasMore: boolean }

export function AuditView() {
  const scope = session.use()?.scope ?? null
  const [filter, setFilter] = useState<Filter>({ kind: '', object: '', personID: '' })
  const [pages, setPages] = useState(1)
  const [mode, setMode] = useState<'look' | 'follow'>('look')
  const path = pathOf(scope)
  const { kind, object, personID } = filter
  const live = useLive(
    path === undefined ? '' : `audit ${path} ${JSON.stringify(filter)} ${pages}`,
    (signal) => readPages(path!, filter, pages, signal),
    mode === 'follow' ? followEveryMs : lookEveryMs,
  )
  const change = (changes: Partial<Filter>) => {
    setFilter({ ...filter, ...changes })
    setPages(1)
  }
  const isFiltered = kind !== '' || object !== '' || personID !== ''
  return (
    <div class="view">
      <ViewHead title="Audit" note="Every change, by whom, from where, and with which answer.">
        <Choice
          label="Follow"
          value={mode}
          onChange={setMode}
          options={[
            ['look', 'Look'],
            ['follow', 'Follow'],
          ]}
        />
      </ViewHead>
      {path === undefined ? (
        <Empty icon="list" title="Choose a team">
          <p>The audit is shown of one team at a time, to its owners.</p>
        </Empty>
      ) : (
        <>
          <div class="toolbar">
            <SearchField
              label="Object"
              placeholder="The id or name of an object"
              value={object}
              onInput={(text) => change({ object: text.trim() })}
            />
            <Select
              label="Action"
              hideLabel
              value={kind}
              onChange={(value) => change({ kind: value })}
              options={kinds}
            />
            {isFiltered && (
              <Button small onPress={() => change({ kind: '', object: '', personID: '' })}>
                Clear
              </Button>
            )}
          </div>
          <Loaded live={live}>
            {({ rows, hasMore }) =>
              rows.length === 0 ? (
                <Empty icon="list" title={isFiltered ? 'Nothing matches' : 'Nothing was changed yet'} />
              ) : (
                <>
                  <Entries rows={rows} onPerson={(id) => change({ personID: id })} />
                  {hasMore && (
                    <div class="actions">
                      <Button onPress={() => setPages(pages + 1)}>Older</Button>
                    </div>
                  )}
                </>
              )
            }
          </Loaded>
        </>
      )}
    </div>
  )
}

/** Undefined: the reader has to choose a team. */
function pathOf(scope: string | null): string | undefined {
  if (scope !== null) return `/teams/${encodeURIComponent(scope)}/audit`
  if (isAdmin()) return '/admin/audit'
  const owned = teamsInScope().filter(({ teamID }) => may('owner', teamID))
  return owned.length === 1 ? `/teams/${encodeURIComponent(owned[0]!.teamID)}/audit` : undefined
}

const teamIn = (path: string): string | undefined => /^\/teams\/([^/]+)/.exec(path)?.[1]

async function readPages(path: string, filter: Filter, pages: number, signal: AbortSignal): Promise<Found> {
  const { kind, object, personID } = filter
  const rows: AuditEntry[] = []
  let token: string | null = null
  for (let page = 0; page < pages; page++) {
    const query = new URLSearchParams({
      limit: String(perPage),
      ...(kind !== '' && { action: kind }),
      ...(object !== '' && { object }),
      ...(personID !== '' && { person: personID }),
      ...(token !== null && { nextToken: token }),
    })
    const response = await send(`${path}?${query}`, { team: teamIn(path), signal })
    rows.push(...((await response.json()) as AuditEntry[]))
    token = response.headers.get('x-next-token')
    if (token === null) break
  }
  return { rows, hasMore: token !== null }
}

function Entries({ rows, onPerson }: { rows: AuditEntry[]; onPerson: (personID: string) => void }) {
  const showsTeam = hasTeams() && session.get()?.scope === null
  return (
    <Card flush>
      <Table
        label="Audit"
        rows={rows}
        keyOf={({ id }) => id}
        columns={[
          { name: 'When', cell: ({ at }) => <span class="whole">{fullTime(at)}</span> },
          { name: 'Who', cell: (row) => <Who row={row} onPerson={onPerson} /> },
          {
            name: 'What',
            cell: ({ action, object }) => (
              <span class="two">
                <span class="name">{action}</span>
                <span class="faint mono cut">{object ?? ''}</span>
              </span>
            ),
          },
          ...(showsTeam
            ? [{ name: 'Team', wide: true, cell: ({ teamID }: AuditEntry) => teamName(teamID) }]
            : []),
          { name: 'Answer', cell: ({ status }) => <Answer status={status} /> },
        ]}
      />
    </Card>
  )
}

function Who(props: { row: AuditEntry; onPerson: (personID: string) => void }) {
  const { person, personID, credential, credentialID, address } = props.row
  const shortID = credentialID === undefined ? '' : ` ${credentialID.slice(0, 8)}`
  return (
    <span class="two">
      {person !== undefined && personID !== undefined ? (
        <button type="button" class="plain-link name" onClick={() => props.onPerson(personID)}>
          {person}
        </button>
      ) : (
        <span class="name">{`${credential}${shortID}`}</span>
      )}
      <span class="faint mono cut">
        {person === undefined ? address : `${credential}${shortID}, ${address}`}
      </span>
    </span>
  )
}

function Answer({ status }: { status: number | undefined }) {
  if (status === undefined) return <Badge state="waiting">not yet</Badge>
  return <Badge state={status < 400 ? 'ok' : 'failed'}>{String(status)}</Badge>
}
