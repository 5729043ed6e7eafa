import { useCallback, useRef } from 'preact/hooks'
import { useKey } from '../browser/keys.ts'
import { Icon } from './icon.tsx'

type SearchProps = { label: string; placeholder: string; value: string; onInput: (value: string) => void }

/** The search of a view: `/` goes to it from anywhere, Escape empties it and leaves it. */
export function SearchField({ label, placeholder, value, onInput }: SearchProps) {
  const input = useRef<HTMLInputElement>(null)
  useKey(
    '/',
    useCallback(() => input.current?.focus(), []),
  )
  return (
    <div class="search">
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        placeholder={placeholder}
        maxLength={256}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
        onKeyDown={({ key, currentTarget }) => {
          if (key !== 'Escape') return
          onInput('')
          currentTarget.blur()
        }}
      />
      {value === '' && <kbd>/</kbd>}
    </div>
  )
}
