/** What every view is made of: a head, cards, tables, empty states. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Live } from '../browser/live.ts'
import { messageFor } from '../browser/rest.ts'
import { Icon, type IconName } from './icon.tsx'

export function ViewHead(props: {
  title: ComponentChildren
  note?: ComponentChildren
  trail?: readonly (readonly [href: string, text: string])[]
  children?: ComponentChildren
}) {
  const { title, note, trail, children } = props
  return (
    <header class="view-head">
      {trail && (
        <nav class="trail" aria-label="Where this is">
          {trail.map(([href, text]) => (
            <span key={href}>
              <a href={href}>{text}</a>
              <Icon name="chevron" size={12} />
            </span>
          ))}
        </nav>
      )}
      <div class="view-title">
        <div class="view-name">
          <h1>{title}</h1>
          {note && <div class="note">{note}</div>}
        </div>
        {children && <div class="actions">{children}</div>}
      </div>
    </header>
  )
}

export function Card(props: {
  title?: string
  actions?: ComponentChildren
  children: ComponentChildren
  flush?: boolean
}) {
  const { title, actions, children, flush } = props
  return (
    <section class={`card${flush ? ' flush' : ''}`}>
      {(title || actions) && (
        <header>
          <h2>{title}</h2>
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  )
}

/** Says what would be here, and how to get it. */
export function Empty({
  icon,
  title,
  children,
}: {
  icon: IconName
  title: string
  children?: ComponentChildren
}) {
  return (
    <div class="empty">
      <Icon name={icon} size={28} />
      <h2>{title}</h2>
      {children}
    </div>
  )
}

/** The data, or why it is not there. */
export function Loaded<T>({ live, children }: { live: Live<T>; children: (data: T) => ComponentChildren }) {
  const { data, error } = live
  return (
    <>
      {error !== undefined && (
        <p class="problem" role="alert">
          {messageFor(error)}
        </p>
      )}
      {data === undefined ? error === undefined && <Waiting /> : children(data)}
    </>
  )
}

export function Waiting() {
  return (
    <div class="waiting" role="status">
      <span class="unseen">Loading</span>
      <i />
      <i />
      <i />
    </div>
  )
}

export type Column<T> = {
  name: string
  cell: (row: T) => ComponentChildren
  /** Left out where the screen is narrow. */
  wide?: boolean
  end?: boolean
}

export function Table<T>(props: {
  label: string
  columns: readonly Column<T>[]
  rows: readonly T[]
  keyOf: (row: T) => string
}) {
  const { label, columns, rows, keyOf } = props
  const classOf = ({ wide, end }: Column<T>) => `${wide ? 'wide-only' : ''}${end ? ' end' : ''}`
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
    <section class="table-scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.name === '' ? <span class="unseen">Actions</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.name} class={classOf(column)} data-name={column.name}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** Names and values of one thing. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

export function Tabs(props: {
  label: string
  current: string
  tabs: readonly (readonly [name: string, text: string, href: string])[]
}) {
  const { label, current, tabs } = props
  const row = useRef<HTMLElement>(null)
  useEffect(() => {
    row.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [current])
  return (
    <nav class="tabs" aria-label={label} ref={row}>
      {tabs.map(([name, text, href]) => (
        <a key={name} href={href} aria-current={name === current ? 'page' : undefined}>
          {text}
        </a>
      ))}
    </nav>
  )
}
