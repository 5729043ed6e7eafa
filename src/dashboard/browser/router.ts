/** Where in the dashboard the reader is: the address bar is the only place that knows. */
import { Shared } from './store.ts'

export const base = '/dashboard'
/** The documentation, which the same server has. */
export const docs = '/docs'

export type ViewAddress = { path: string; segments: string[]; query: URLSearchParams }

function addressOf({ pathname, search }: { pathname: string; search: string }): ViewAddress {
  const path = pathname.slice(base.length).replace(/\/+$/, '') || '/'
  const segments = path
    .split('/')
    .filter((part) => part !== '')
    .map(decoded)
  return { path, segments, query: new URLSearchParams(search) }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** A path of the dashboard, with each part encoded; empty values of the query are left out. */
export function pathTo(parts: readonly string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]))
  const search = given.length > 0 ? `?${new URLSearchParams(given)}` : ''
  return `${base}/${parts.map(encodeURIComponent).join('/')}${search}`
}

export const address = new Shared<ViewAddress>(addressOf({ pathname: base, search: '' }))

export function navigate(href: string, replace = false): void {
  if (replace) history.replaceState(null, '', href)
  else history.pushState(null, '', href)
  address.set(addressOf(location))
  if (!replace) document.querySelector('main')?.scrollTo(0, 0)
}

/** Follows links of ours without loading the page again. */
export function startRouting(): void {
  address.set(addressOf(location))
  addEventListener('popstate', () => address.set(addressOf(location)))
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const link = (event.target as Element | null)?.closest?.('a')
    if (link?.target !== '' || link.origin !== location.origin) return
    if (link.hasAttribute('download') || !`${link.pathname}/`.startsWith(`${base}/`)) return
    event.preventDefault()
    navigate(link.href)
  })
}
