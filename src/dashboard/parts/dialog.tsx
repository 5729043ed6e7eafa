/** Dialogs over the page. The browser's own element keeps the focus inside and closes on Escape. */
import type { ComponentChildren, RefObject } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { messageFor } from '../browser/rest.ts'
import { Shared } from '../browser/store.ts'
import { Button } from './button.tsx'

/** Opens a dialog as it is drawn. However it closes, the focus goes back to what had it before. */
export function useModal(onClose: () => void): RefObject<HTMLDialogElement | null> {
  const element = useRef<HTMLDialogElement>(null)
  const close = useRef(onClose)
  close.current = onClose
  useLayoutEffect(() => {
    const dialog = element.current
    if (!dialog) return
    const closeNow = () => close.current()
    dialog.showModal()
    dialog.addEventListener('close', closeNow)
    return () => {
      dialog.removeEventListener('close', closeNow)
      dialog.close()
    }
  }, [])
  return element
}

type DialogProps = { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }

export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const element = useModal(onClose)
  const titleID = useId()
  useLayoutEffect(() => {
    // The browser would choose the button that closes it. That is right before something that cannot be undone.
    element.current
      ?.querySelector<HTMLElement>('form :is(input, select, textarea, button.primary[type=submit])')
      ?.focus()
  }, [])
  const closeOutside = (event: MouseEvent) => {
    if (event.target === element.current) onClose()
  }
  return (
    <dialog
      ref={element}
      class={`dialog${wide ? ' wide' : ''}`}
      aria-labelledby={titleID}
      onMouseDown={closeOutside}
    >
      <header>
        <h2 id={titleID}>{title}</h2>
        <Button kind="quiet" small icon="x" label="Close" onPress={onClose} />
      </header>
      {children}
    </dialog>
  )
}

type FormProps = {
  title: string
  action: string
  danger?: boolean
  /** A rejection is shown in the dialog, which stays open. */
  onSubmit: () => Promise<unknown>
  onClose: () => void
  children?: ComponentChildren
}

export function FormDialog({ title, action, danger, onSubmit, onClose, children }: FormProps) {
  const [problem, setProblem] = useState('')
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    setProblem('')
    try {
      await onSubmit()
      onClose()
    } catch (error) {
      setProblem(messageFor(error))
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit}>
        <div class="dialog-body">
          {children}
          {problem !== '' && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind={danger ? 'danger' : 'primary'} submit disabled={isBusy}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

type Question = { title: string; text: string; action: string; run: () => Promise<unknown> }
const question = new Shared<Question | undefined>(undefined)

/** Asks once before something that cannot be undone. */
export function confirmFirst(title: string, text: string, action: string, run: () => Promise<unknown>): void {
  question.set({ title, text, action, run })
}

export function Confirmation() {
  const asked = question.use()
  if (!asked) return null
  const { title, text, action, run } = asked
  return (
    <FormDialog title={title} action={action} danger onSubmit={run} onClose={() => question.set(undefined)}>
      <p>{text}</p>
    </FormDialog>
  )
}
