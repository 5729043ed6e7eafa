/** The frame around every view: navigation, team, theme, and the command palette. */
import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { logOut } from '../browser/log-in.ts'
import { address, base, docs, navigate, pathTo } from '../browser/router.ts'
import { hasTeams, isPerson, session, setScope, teamName } from '../browser/session.ts'
import { chooseTheme, type Theme, theme } from '../browser/theme.ts'
import { Button } from '../parts/button.tsx'
import { Select } from '../parts/fields.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { Brand } from './brand.tsx'
import { visibleDestinations, visibleGroups } from './destinations.ts'
import { Palette } from './palette.tsx'
import { WeakerIsolation } from './weaker-isolation.tsx'

const themes: readonly (readonly [Theme, string, IconName])[] = [
  ['system', 'As the system', 'screen'],
  ['light', 'Light', 'sun'],
  ['dark', 'Dark', 'moon'],
]

export function Shell({ children }: { children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false)
  const [isFinding, setFinding] = useState(false)
  const here = address.use()
  const current = here.segments[0] ?? 'sandboxes'
  useEffect(() => setOpen(false), [here])
  useEffect(() => {
    const text = visibleDestinations().find(({ noun }) => noun === current)?.text ?? 'Warren'
    document.title = `${here.segments[1] ? `${here.segments[1]} · ` : ''}${text} · Warren`
  }, [here])
  usePaletteKey(() => setFinding(true))
  const menu = useMenuFocus(isOpen, () => setOpen(false))
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.querySelector('main')?.focus()}>
        Skip to the content
      </button>
      <header class="topbar">
        <Button kind="quiet" icon="menu" label="Menu" onPress={() => setOpen(true)} />
        <a class="brand" href={base}>
          <Brand /> Warren
        </a>
        <Button kind="quiet" icon="search" label="Search" onPress={() => setFinding(true)} />
      </header>
      {isOpen && (
        <button type="button" class="veil" aria-label="Close the menu" onClick={() => setOpen(false)} />
      )}
      <aside ref={menu} class={`sidebar${isOpen ? ' open' : ''}`} tabIndex={-1}>
        <a class="brand" href={base}>
          <Brand /> Warren
        </a>
        <TeamSwitch />
        <button type="button" class="find" onClick={() => setFinding(true)}>
          <Icon name="search" />
          <span>Find or do…</span>
          <kbd>{/mac/i.test(navigator.platform) ? '⌘' : 'Ctrl'} K</kbd>
        </button>
        <Navigation current={current} />
        <a class="docs" href={docs} target="_blank" rel="noreferrer noopener">
          <Icon name="book" />
          Documentation
        </a>
        <div class="foot">
          <Reader />
          <ThemeSwitch />
          {isPerson() ? (
            <Button kind="quiet" small icon="out" label="Sign out" onPress={logOut} />
          ) : (
            <Button kind="quiet" small icon="out" onPress={logOut}>
              Log out
            </Button>
          )}
        </div>
      </aside>
      <main id="main" tabIndex={-1}>
        <WeakerIsolation />
        {children}
      </main>
      {isFinding && <Palette onClose={() => setFinding(false)} />}
    </div>
  )
}

function usePaletteKey(open: () => void): void {
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.metaKey || event.ctrlKey)) return
      // A shell cuts the rest of the line with Ctrl K.
      if (event.ctrlKey && (event.target as Element).closest('.screen')) return
      event.preventDefault()
      open()
    }
    document.addEventListener('keydown', listen, { capture: true })
    return () => document.removeEventListener('keydown', listen, { capture: true })
  }, [])
}

/** The menu of a narrow screen takes the focus while it is open, and closes on Escape. */
function useMenuFocus(isOpen: boolean, close: () => void): RefObject<HTMLElement | null> {
  const menu = useRef<HTMLElement>(null)
  // Before the menu is drawn, because a user who sees it may press Escape at once.
  useLayoutEffect(() => {
    if (!isOpen) return
    const before = document.activeElement as HTMLElement | null
    menu.current?.focus()
    const listen = ({ key }: KeyboardEvent) => key === 'Escape' && close()
    document.addEventListener('keydown', listen)
    return () => {
      document.removeEventListener('keydown', listen)
      before?.focus()
    }
  }, [isOpen])
  return menu
}

function Navigation({ current }: { current: string }) {
  return (
    <nav aria-label="Views">
      {visibleGroups().map(([group, items]) => (
        <>
          {group !== '' && <h2>{group}</h2>}
          {items.map(({ noun, text, icon }) => (
            <a key={noun} href={pathTo([noun])} aria-current={noun === current ? 'page' : undefined}>
              <Icon name={icon} />
              {text}
            </a>
          ))}
        </>
      ))}
    </nav>
  )
}

function TeamSwitch() {
  const current = session.use()
  if (!current) return null
  if (!hasTeams()) {
    return (
      <div class="team-name">
        <Icon name="users" />
        <span class="cut">{teamName(current.scope ?? undefined)}</span>
      </div>
    )
  }
  const choose = (value: string) => {
    setScope(value === '' ? null : value)
    navigate(pathTo([address.get().segments[0] ?? 'sandboxes']))
  }
  return (
    <Select
      label="Team"
      hideLabel
      value={current.scope ?? ''}
      onChange={choose}
      options={[['', 'All teams'], ...current.teams.map(({ teamID, name }) => [teamID, name] as const)]}
    />
  )
}

/** Who signed in; keys have no name. */
function Reader() {
  const person = session.use()?.person
  if (!person) return null
  return (
    <a class="reader" href={pathTo(['sessions'])} aria-label={`Sessions of ${person.name}`}>
      <Icon name="user" />
      <span class="cut">{person.name}</span>
    </a>
  )
}

function ThemeSwitch() {
  const chosen = theme.use()
  const at = themes.findIndex(([name]) => name === chosen)
  const [, text, icon] = themes[at]!
  const next = themes[(at + 1) % themes.length]![0]
  return <Button kind="quiet" small icon={icon} label={`Theme: ${text}`} onPress={() => chooseTheme(next)} />
}
