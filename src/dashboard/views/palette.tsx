/** The command palette: every view, every sandbox by its id or metadata, and a few commands, by a few letters. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { logOut } from '../browser/log-in.ts'
import { docs, navigate, pathTo } from '../browser/router.ts'
import { knownSandboxes, listSandboxes } from '../browser/sandboxes.ts'
import { best, type Findable } from '../browser/search.ts'
import { may } from '../browser/session.ts'
import { chooseTheme, shownTheme } from '../browser/theme.ts'
import { Tag } from '../parts/badges.tsx'
import { useModal } from '../parts/dialog.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { showFailure } from '../parts/toasts.tsx'
import { visibleDestinations } from './destinations.ts'

type Command = Findable & { hint: string; icon: IconName; run: () => void }

const maxShown = 30

const createSandbox: Command = {
  text: 'Create a sandbox',
  hint: 'Do',
  icon: 'plus',
  run: () => navigate(`${pathTo(['sandboxes'])}?new=1`),
}

function allCommands(): Command[] {
  const views = visibleDestinations().map(({ noun, text, icon }) => ({
    text,
    hint: 'Go to',
    icon,
    run: () => navigate(pathTo([noun])),
  }))
  const other = shownTheme() === 'dark' ? 'light' : 'dark'
  const commands: Command[] = [
    ...(may('member') ? [createSandbox] : []),
    {
      text: `Use the ${other} theme`,
      hint: 'Do',
      icon: other === 'dark' ? 'moon' : 'sun',
      run: () => chooseTheme(other),
    },
    {
      text: 'Open the documentation',
      hint: 'Go to',
      icon: 'book',
      run: () => open(docs, '_blank', 'noopener'),
    },
    { text: 'Log out', hint: 'Do', icon: 'out', run: () => void logOut().catch(showFailure) },
  ]
  const sandboxes = knownSandboxes().map(({ sandboxID, alias, team, metadata = {} }) => ({
    text: `${sandboxID} ${alias ?? ''}`,
    words: Object.entries(metadata).map(([key, value]) => `${key}=${value}`),
    hint: 'Sandbox',
    icon: 'box' as const,
    run: () => navigate(pathTo(['sandboxes', sandboxID], { team })),
  }))
  return [...views, ...commands, ...sandboxes]
}

export function Palette({ onClose }: { onClose: () => void }) {
  const element = useModal(onClose)
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const [round, setRound] = useState(0)
  const commands = useMemo(allCommands, [round])
  const found = useMemo(() => best(commands, text, maxShown), [commands, text])
  useEffect(() => {
    // Nobody has opened the list of sandboxes yet.
    if (knownSandboxes().length > 0) return
    const stopped = new AbortController()
    listSandboxes(stopped.signal, () => {}).then(
      () => setRound((last) => last + 1),
      // The palette finds views and commands without it.
      () => {},
    )
    return () => stopped.abort()
  }, [])
  useEffect(() => {
    element.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [at, found])
  const run = (command: Command | undefined) => {
    if (!command) return
    onClose()
    command.run()
  }
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      setAt((found.length + at + step) % Math.max(1, found.length))
    } else if (event.key === 'Enter') {
      event.preventDefault()
      run(found[at]?.one)
    }
  }
  return (
    <dialog
      ref={element}
      class="palette"
      aria-label="Find or do"
      onMouseDown={(event) => event.target === element.current && onClose()}
    >
      <input
        aria-label="Find or do"
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls={found.length > 0 ? 'palette-found' : undefined}
        aria-activedescendant={found.length > 0 ? `palette-${at}` : undefined}
        placeholder="A view, a sandbox, a command…"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value)
          setAt(0)
        }}
        onKeyDown={press}
      />
      {found.length > 0 ? (
        <div id="palette-found" class="found" role="listbox" aria-label="Found">
          {found.map(({ one, word }, index) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the input above has the keyboard
            // biome-ignore lint/a11y/useFocusableInteractive: the input above keeps the focus
            <div
              key={one.text}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === at}
              onClick={() => run(one)}
              // A list that changes under a mouse that stands still gives such events too.
              onMouseMove={({ movementX, movementY }) => (movementX !== 0 || movementY !== 0) && setAt(index)}
            >
              <Icon name={one.icon} />
              <span class="cut">{one.text}</span>
              {word === undefined ? <span class="hint">{one.hint}</span> : <Tag>{word}</Tag>}
            </div>
          ))}
        </div>
      ) : (
        <p class="none" role="status">
          Nothing has this name, id or metadata.
        </p>
      )}
    </dialog>
  )
}
