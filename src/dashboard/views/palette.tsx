/** The command palette: every view, every sandbox in memory, and a few commands, by a few letters. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { logOut } from '../browser/log-in.ts'
import { navigate, pathTo } from '../browser/router.ts'
import { knownSandboxes } from '../browser/sandboxes.ts'
import { rank } from '../browser/search.ts'
import { chooseTheme, shownTheme } from '../browser/theme.ts'
import { useModal } from '../parts/dialog.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { visibleDestinations } from './destinations.ts'

type Command = { text: string; hint: string; icon: IconName; run: () => void }

const mostShown = 30

function allCommands(): Command[] {
  const views = visibleDestinations().map(({ noun, text, icon }) => ({
    text,
    hint: 'Go to',
    icon,
    run: () => navigate(pathTo([noun])),
  }))
  const other = shownTheme() === 'dark' ? 'light' : 'dark'
  const commands: Command[] = [
    {
      text: 'Create a sandbox',
      hint: 'Do',
      icon: 'plus',
      run: () => navigate(`${pathTo(['sandboxes'])}?new=1`),
    },
    {
      text: `Use the ${other} theme`,
      hint: 'Do',
      icon: other === 'dark' ? 'moon' : 'sun',
      run: () => chooseTheme(other),
    },
    { text: 'Log out', hint: 'Do', icon: 'out', run: logOut },
  ]
  const sandboxes = knownSandboxes().map(({ sandboxID, alias, team }) => ({
    text: `${sandboxID} ${alias ?? ''}`,
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
  const commands = useMemo(allCommands, [])
  const found = useMemo(() => bestOf(commands, text), [commands, text])
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
      run(found[at])
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
        aria-expanded="true"
        aria-controls="palette-found"
        aria-activedescendant={found.length > 0 ? `palette-${at}` : undefined}
        placeholder="A view, a sandbox, a command…"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value)
          setAt(0)
        }}
        onKeyDown={press}
      />
      <div id="palette-found" class="found" role="listbox" aria-label="Found">
        {found.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input above has the keyboard
          // biome-ignore lint/a11y/useFocusableInteractive: the input above keeps the focus
          <div
            key={command.text}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === at}
            onClick={() => run(command)}
            // A list that changes under a mouse that stands still gives such events too.
            onMouseMove={({ movementX, movementY }) => (movementX !== 0 || movementY !== 0) && setAt(index)}
          >
            <Icon name={command.icon} />
            <span class="cut">{command.text}</span>
            <span class="hint">{command.hint}</span>
          </div>
        ))}
        {found.length === 0 && <p class="none">Nothing is called that.</p>}
      </div>
    </dialog>
  )
}

function bestOf(commands: readonly Command[], text: string): Command[] {
  const ranked = commands.flatMap((command) => {
    const score = rank(command.text, text)
    return score === undefined ? [] : [{ command, score }]
  })
  return ranked
    .sort((a, b) => a.score - b.score)
    .slice(0, mostShown)
    .map(({ command }) => command)
}
