import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
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
  /** Until the returned promise settles, the button is disabled; a rejection is shown as an error. */
  onPress?: () => unknown
}

export function Button(props: ButtonProps) {
  const { children, icon, label, kind = 'plain', small, disabled, pressed, title, submit, onPress } = props
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
