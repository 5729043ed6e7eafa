/** Labelled inputs of forms. */
import type { ComponentChildren, InputHTMLAttributes } from 'preact'
import { useId } from 'preact/hooks'
import { hasTeams, session, teamsInScope } from '../browser/session.ts'

type FieldProps = {
  label: string
  value: string
  onInput: (value: string) => void
  hint?: ComponentChildren
  placeholder?: string
  kind?: 'text' | 'password' | 'number' | 'url'
  required?: boolean
  autofocus?: boolean
  /** More than one line. */
  lines?: number
  mono?: boolean
  disabled?: boolean
}

export function Field(props: FieldProps) {
  const { label, value, onInput, hint, placeholder, kind = 'text', required, lines, mono, disabled } = props
  const id = useId()
  const shared = {
    id,
    value,
    placeholder,
    required,
    disabled,
    autocomplete: 'off',
    spellcheck: false,
    class: mono ? 'mono' : '',
    'aria-describedby': hint ? `${id}-hint` : undefined,
    onInput: (event: Event) => onInput((event.currentTarget as HTMLInputElement).value),
    ref: (element: HTMLElement | null) => {
      if (element && props.autofocus && !element.dataset.focused) {
        element.dataset.focused = 'yes'
        element.focus()
      }
    },
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {lines ? (
        <textarea rows={lines} {...shared} />
      ) : (
        <input {...({ ...shared, type: kind } as InputHTMLAttributes<HTMLInputElement>)} />
      )}
      {hint && (
        <small id={`${id}-hint`} class="hint">
          {hint}
        </small>
      )}
    </div>
  )
}

type SelectProps = {
  label: string
  value: string
  options: readonly (readonly [value: string, text: string])[]
  onChange: (value: string) => void
  hideLabel?: boolean
}

export function Select({ label, value, options, onChange, hideLabel }: SelectProps) {
  const id = useId()
  return (
    <div class={hideLabel ? 'select-only' : 'field'}>
      <label for={id} class={hideLabel ? 'unseen' : ''}>
        {label}
      </label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

type CheckProps = { label: string; checked: boolean; onChange: (checked: boolean) => void; hint?: string }

export function Check({ label, checked, onChange, hint }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>
        {label}
        {hint && <small class="hint">{hint}</small>}
      </span>
    </label>
  )
}

/** For whom something is made; shown only where the reader sees several teams. */
export function TeamField({ value, onChange }: { value: string; onChange: (team: string) => void }) {
  session.use()
  const teams = teamsInScope()
  if (!hasTeams() || teams.length < 2) return null
  return (
    <Select
      label="Team"
      value={value}
      onChange={onChange}
      options={teams.map(({ teamID, name }) => [teamID, name] as const)}
    />
  )
}

export const firstTeam = (): string => teamsInScope()[0]?.teamID ?? ''

/** A choice between a few options, shown side by side. */
export function Choice<T extends string>(props: {
  label: string
  value: T
  options: readonly (readonly [value: T, text: string])[]
  onChange: (value: T) => void
}) {
  const { label, value, options, onChange } = props
  return (
    <fieldset class="choice">
      <legend class="unseen">{label}</legend>
      {options.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </fieldset>
  )
}
