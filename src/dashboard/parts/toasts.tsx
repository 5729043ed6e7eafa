/** Short news at the edge of the page: what was done, or why it was not. */
import { messageFor } from '../browser/rest.ts'
import { Shared } from '../browser/store.ts'
import { Icon } from './icon.tsx'

type Toast = { id: number; kind: 'done' | 'failed'; text: string }

const toasts = new Shared<Toast[]>([])
let lastID = 0
const shownMs = { done: 4000, failed: 12_000 }
const maxToasts = 4

function showToast(kind: Toast['kind'], text: string): void {
  const id = ++lastID
  toasts.set([...toasts.get(), { id, kind, text }].slice(-maxToasts))
  setTimeout(() => dismiss(id), shownMs[kind])
}

const dismiss = (id: number) => toasts.set(toasts.get().filter((toast) => toast.id !== id))

export const showDone = (text: string): void => showToast('done', text)
export const showFailure = (error: unknown): void => showToast('failed', messageFor(error))

export function Toasts() {
  const shown = toasts.use()
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map(({ id, kind, text }) => (
        <div key={id} class={`toast ${kind}`}>
          <Icon name={kind === 'done' ? 'check' : 'alert'} />
          <span>{text}</span>
          <button
            type="button"
            class="button quiet small bare"
            aria-label="Dismiss"
            onClick={() => dismiss(id)}
          >
            <Icon name="x" />
          </button>
        </div>
      ))}
    </div>
  )
}
