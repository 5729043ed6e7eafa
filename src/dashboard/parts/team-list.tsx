/** Lists of what teams have: templates, volumes, secrets and the like. */
import type { ComponentChildren } from 'preact'
import { type Live, useLive } from '../browser/live.ts'
import { pathTo } from '../browser/router.ts'
import { hasTeams, ofTeams, session, showsTeams, teamName } from '../browser/session.ts'
import { Button } from './button.tsx'
import { Card, type Column, Loaded, Table } from './layout.tsx'

type OfTeam<T> = T & { team: string }

/** The things of the teams in scope, each with its team. */
export function useTeamList<T extends object>(
  kind: string,
  load: (team: string, signal: AbortSignal) => Promise<T[]>,
  everyMs?: number,
): Live<OfTeam<T>[]> {
  const scope = session.use()?.scope ?? 'all'
  return useLive(`${kind} ${scope}`, (signal) => ofTeams((team) => load(team, signal)), everyMs)
}

/** `columns` begin with the name; the team comes after it where teams are looked at together, and the actions at the end. */
export function TeamList<T extends { team: string }>(props: {
  label: string
  live: Live<T[]>
  keyOf: (row: T) => string
  columns: readonly [Column<T>, ...Column<T>[]]
  actions?: (row: T) => ComponentChildren
  /** Shown while the list is empty. */
  empty: ComponentChildren
}) {
  const { label, live, keyOf, actions, empty } = props
  const [name, ...others] = props.columns
  const columns: Column<T>[] = [
    name,
    ...(showsTeams() ? [{ name: 'Team', cell: ({ team }: T) => teamName(team) }] : []),
    ...others,
    ...(actions
      ? [{ name: '', end: true, cell: (row: T) => <div class="actions">{actions(row)}</div> }]
      : []),
  ]
  return (
    <Loaded live={live}>
      {(rows) =>
        rows.length === 0 ? (
          empty
        ) : (
          <Card flush>
            <Table label={label} rows={rows} keyOf={keyOf} columns={columns} />
          </Card>
        )
      }
    </Loaded>
  )
}

/** A name with what tells it from others below it. The operator's link says whose it is. */
export function NameCell(props: {
  name: string
  note?: string
  view?: readonly [string, string]
  team?: string
}) {
  const { name, note, view, team } = props
  return (
    <span class="two">
      {view ? (
        <a class="name" href={pathTo(view, { team: hasTeams() ? team : undefined })}>
          {name}
        </a>
      ) : (
        <span class="name">{name}</span>
      )}
      {note !== undefined && <span class="faint mono cut">{note}</span>}
    </span>
  )
}

type DeleteButtonProps = { name: string; onPress: () => unknown; team?: string }

export function DeleteButton({ name, onPress, team }: DeleteButtonProps) {
  return (
    <Button
      kind="quiet"
      small
      icon="trash"
      label={`Delete ${name}`}
      needs="member"
      team={team}
      onPress={onPress}
    />
  )
}
