/** Keys that work anywhere in the dashboard, unless somebody is writing. */
import { useLayoutEffect } from 'preact/hooks'

function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
}

/** Listens as soon as the view is drawn, so that no key press is lost. */
export function useKey(key: string, action: () => void): void {
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (event.key !== key || event.metaKey || event.ctrlKey || event.altKey) return
      if (event.defaultPrevented || isWriting(event.target) || document.querySelector('dialog[open]')) return
      event.preventDefault()
      action()
    }
    document.addEventListener('keydown', listen)
    return () => document.removeEventListener('keydown', listen)
  }, [key, action])
}
