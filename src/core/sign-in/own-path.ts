const anyOrigin = 'http://own.invalid'

/**
 * Whether a browser that is sent to this text, by a page of this server, arrives at the dashboard of the same server. Browsers
 * read `//host`, `/\host` and tabs inside an address in their own way, so nothing but plain characters is accepted.
 */
export function isOwnPath(text: string): boolean {
  if (!/^\/dashboard(?:[/?#]|$)/.test(text) || text.length > 2000) return false
  if (/[^\x21-\x7e]|\\/.test(text)) return false
  const url = URL.parse(text, anyOrigin)
  return url?.origin === anyOrigin && /^\/dashboard(?:\/|$)/.test(url.pathname)
}
