/** Patterns of host names, as policies write them. */
import { readHostName } from '../../lib/host-name.ts'

/** Lower case, in ASCII, without a final dot. Undefined: no name, such as an address in one of its spellings. */
export function parseHostName(text: string): string | undefined {
  const host = readHostName(text)
  return host && 'name' in host ? host.name : undefined
}

/** The same, `*.name` for every name below it, or `*` for any. */
export function parseNamePattern(text: string): string | undefined {
  if (text === '*') return text
  if (!text.startsWith('*.')) return parseHostName(text)
  const below = parseHostName(text.slice(2))
  return below && `*.${below}`
}

/** `x.com` is that name alone, `*.x.com` is everything below it, `*` is every name. */
export function matchesName(pattern: string, name: string): boolean {
  if (pattern === '*') return true
  return pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) : name === pattern
}

export const matchesAny = (patterns: readonly string[], name: string): boolean =>
  patterns.some((pattern) => matchesName(pattern, name))
