// biome-ignore-all lint/a11y/useSemanticElements: rows out of sight do not exist, which no <table> can say
// biome-ignore-all lint/a11y/useFocusableInteractive: headers and rows are read, and only links and boxes in them are used
/** The rows of the list. Only those in sight are drawn, so that thousands scroll as a few do. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ago, bytes, duration, fullTime, percent } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { type Curves, useMetricHistory } from '../browser/metric-history.ts'
import { pathTo } from '../browser/router.ts'
import type { TeamSandbox } from '../browser/sandboxes.ts'
import { hasTeams, teamName } from '../browser/session.ts'
import { rowsInSight } from '../browser/virtual-rows.ts'
import { Badge, Tag } from '../parts/badges.tsx'
import { Empty } from '../parts/layout.tsx'
import { Sparkline } from '../parts/sparkline.tsx'

/** As in views.css. */
const rowHeight = 56
const soonMs = 60_000
const shownMetadata = 3

type RowsProps = {
  rows: readonly TeamSandbox[]
  chosen: ReadonlySet<string>
  onChoose: (chosen: ReadonlySet<string>) => void
  showTeam: boolean
  children?: ComponentChildren
}

export function SandboxRows({ rows, chosen, onChoose, showTeam, children }: RowsProps) {
  const body = useRef<HTMLDivElement>(null)
  const [scroll, setScroll] = useState({ top: 0, height: 800 })
  useEffect(() => {
    const element = body.current
    if (!element) return
    const read = () => setScroll({ top: element.scrollTop, height: element.clientHeight })
    const observer = new ResizeObserver(read)
    observer.observe(element)
    element.addEventListener('scroll', read, { passive: true })
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', read)
    }
  }, [])
  const { first, last, offset, height } = rowsInSight(rows.length, rowHeight, scroll.top, scroll.height)
  const inSight = rows.slice(first, last)
  const history = useMetricHistory(inSight)
  const now = useNow()
  const isAll = rows.length > 0 && rows.every(({ sandboxID }) => chosen.has(sandboxID))
  const chooseAll = () => onChoose(new Set(isAll ? [] : rows.map(({ sandboxID }) => sandboxID)))
  const choose = (sandboxID: string) => {
    const next = new Set(chosen)
    if (!next.delete(sandboxID)) next.add(sandboxID)
    onChoose(next)
  }
  return (
    <div
      class={`rows${showTeam ? ' many-teams' : ''}`}
      role="table"
      aria-label="Sandboxes"
      aria-rowcount={rows.length + 1}
    >
      <div role="rowgroup">
        <div class="row head" role="row" aria-rowindex={1}>
          <span role="columnheader">
            <input type="checkbox" aria-label="Select all" checked={isAll} onChange={chooseAll} />
          </span>
          <span role="columnheader">Sandbox</span>
          <span role="columnheader" class="narrow-off">
            Template
          </span>
          {showTeam && (
            <span role="columnheader" class="narrow-off">
              Team
            </span>
          )}
          <span role="columnheader">State</span>
          <span role="columnheader" class="narrow-off">
            Started
          </span>
          <span role="columnheader" class="narrow-off">
            Time left
          </span>
          <span role="columnheader" class="wide-cell">
            CPU
          </span>
          <span role="columnheader" class="wide-cell">
            Memory
          </span>
        </div>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard */}
      <div class="body" role="rowgroup" ref={body} tabIndex={0}>
        {rows.length === 0 && (
          <div role="row">
            <div role="cell">
              <Empty icon="search" title="Nothing matches">
                <p>Search finds ids, templates and metadata such as user=42.</p>
              </Empty>
            </div>
          </div>
        )}
        <div role="presentation" style={{ height: `${height}px` }}>
          <div role="presentation" style={{ transform: `translateY(${offset}px)` }}>
            {inSight.map((row, index) => (
              <Row
                key={row.sandboxID}
                row={row}
                index={first + index}
                isChosen={chosen.has(row.sandboxID)}
                onChoose={choose}
                showTeam={showTeam}
                curves={history.get(row.sandboxID)}
                now={now}
              />
            ))}
          </div>
        </div>
      </div>
      {children}
    </div>
  )
}

type RowProps = {
  row: TeamSandbox
  index: number
  isChosen: boolean
  onChoose: (sandboxID: string) => void
  showTeam: boolean
  curves: Curves | undefined
  now: number
}

function Row({ row, index, isChosen, onChoose, showTeam, curves, now }: RowProps) {
  const { sandboxID, state, startedAt, endAt, alias, templateID, team, metadata } = row
  const leftMs = Date.parse(endAt) - now
  return (
    <div class={`row item${isChosen ? ' chosen' : ''}`} role="row" aria-rowindex={index + 2}>
      <span role="cell">
        <input
          type="checkbox"
          aria-label={`Select ${sandboxID}`}
          checked={isChosen}
          onChange={() => onChoose(sandboxID)}
        />
      </span>
      <span role="cell" class="who">
        <a class="cut" href={pathTo(['sandboxes', sandboxID], { team: hasTeams() ? team : undefined })}>
          {sandboxID}
        </a>
        <span class="meta">
          {showTeam && <span class="team">{teamName(team)}</span>}
          {Object.entries(metadata ?? {})
            .slice(0, shownMetadata)
            .map(([key, value]) => (
              <Tag key={key}>
                {key}={value}
              </Tag>
            ))}
        </span>
      </span>
      <span role="cell" class="cut narrow-off">
        {alias ?? templateID}
      </span>
      {showTeam && (
        <span role="cell" class="cut narrow-off">
          {teamName(team)}
        </span>
      )}
      <span role="cell">
        <Badge state={state} />
      </span>
      <span role="cell" class="soft figures narrow-off" title={fullTime(startedAt)}>
        {ago(startedAt, now)}
      </span>
      <span
        role="cell"
        class={`figures narrow-off ${state === 'running' && leftMs < soonMs ? 'late' : 'soft'}`}
      >
        {state === 'running' ? duration(leftMs) : '–'}
      </span>
      <span role="cell" class="curve cpu wide-cell">
        {state === 'running' && curves && curves.lastAt > 0 && (
          <>
            <Sparkline values={curves.cpu} max={Math.max(20, ...curves.cpu)} />
            <span class="figures">{percent(curves.cpu.at(-1) ?? 0)}</span>
          </>
        )}
      </span>
      <span role="cell" class="curve memory wide-cell">
        {state === 'running' && curves && curves.lastAt > 0 && (
          <>
            <Sparkline values={curves.memory} max={Math.max(curves.memTotal / 8, ...curves.memory)} />
            <span class="figures">{bytes(curves.memory.at(-1) ?? 0)}</span>
          </>
        )}
      </span>
    </div>
  )
}
