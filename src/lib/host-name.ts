/**
 * Host names in the one form in which they are compared, resolved and shown: lower case, ASCII, no final dot.
 * What cannot be brought to that form is no name, so nothing downstream can read it differently.
 */
import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'

const longestName = 253
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/
/** Characters that end or split a name in a URL, because the conversion to ASCII parses the name as one. */
const unfit = /[\p{Cc}\p{Z}"#%/:<>?@[\\\]^`{|}]/u

type HostName = { name: string } | { address: string }

/** Null: malformed. An address is not a name: no pattern matches it, not even `*`. */
export function readHostName(text: string): HostName | null {
  if (unfit.test(text) || text.length > 4 * longestName) return null
  const ascii = isAscii(text) ? text.toLowerCase() : domainToASCII(text)
  const name = ascii.endsWith('.') ? ascii.slice(0, -1) : ascii
  if (name === '' || name.length > longestName) return null
  const labels = name.split('.')
  if (!labels.every((part) => label.test(part))) return null
  if (isIP(name)) return { address: name }
  // Some resolvers read 127.1 or 0x7f000001 as addresses, so these are rejected both as names and as addresses.
  return /^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1)!) ? null : { name }
}

/** The value of a Host header, or the authority of a request's target. A port must be a number. */
export function readAuthority(text: string): (HostName & { portSuffix: string }) | null {
  const match = /^(.*?)(:\d{0,5})?$/s.exec(text)
  const host = match && readHostName(match[1]!)
  if (!host) return null
  const portSuffix = match[2] ?? ''
  return { ...host, portSuffix: portSuffix === ':' ? '' : portSuffix }
}

export function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 127) return false
  return true
}
