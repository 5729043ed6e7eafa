/** Keys that work anywhere in the dashboard, unless somebody is writing. */
import { useEffect } from 'preact/hooks'

export function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
}

export function useKey(key: string, action: () => void): void {
  useEffect(() => {
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
