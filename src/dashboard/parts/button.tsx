import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { may, type NeededRole } from '../browser/session.ts'
import { Icon, type IconName } from './icon.tsx'
import { showFailure } from './toasts.tsx'

type ButtonProps = {
  children?: ComponentChildren
  icon?: IconName
  /** Where there is no text. */
  label?: string
  kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  small?: boolean
  disabled?: boolean
  pressed?: boolean
  title?: string
  submit?: boolean
  /** The role that its act takes, in `team` or in any team that the reader looks at; others do not see it. */
  needs?: NeededRole
  team?: string | undefined
  /** Until the returned promise settles, the button is disabled; a rejection is shown as an error. */
  onPress?: () => unknown
}

export function Button(props: ButtonProps) {
  const {
    children,
    icon,
    label,
    kind = 'plain',
    small,
    disabled,
    pressed,
    title,
    submit,
    onPress,
    needs,
    team,
  } = props
  const [isBusy, setBusy] = useState(false)
  const press = async () => {
    const result = onPress?.()
    if (!(result instanceof Promise)) return
    setBusy(true)
    try {
      await result
    } catch (error) {
      showFailure(error)
    } finally {
      setBusy(false)
    }
  }
  if (needs !== undefined && !may(needs, team)) return null
  const isBare = children === undefined
  return (
    <button
      type={submit ? 'submit' : 'button'}
      class={`button ${kind}${small ? ' small' : ''}${isBare ? ' bare' : ''}`}
      disabled={disabled || isBusy}
      aria-busy={isBusy}
      aria-label={label}
      aria-pressed={pressed}
      title={title ?? label}
      onClick={press}
    >
      {icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
    </button>
  )
}
