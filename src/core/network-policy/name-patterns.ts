/** Patterns of host names in network policies. */
import { readHostName } from '../../lib/host-name.ts'

/**
 * Returns the name in lower case and ASCII, without a final dot. Undefined if the text is not a name, for
 * instance an address.
 */
export function parseHostName(text: string): string | undefined {
  const host = readHostName(text)
  return host && 'name' in host ? host.name : undefined
}

/** A pattern is a name, `*.name` for every name below it, or `*` for any name. */
export function parseNamePattern(text: string): string | undefined {
  if (text === '*') return text
  if (!text.startsWith('*.')) return parseHostName(text)
  const below = parseHostName(text.slice(2))
  return below && `*.${below}`
}

/** `x.com` matches that name only, `*.x.com` every name below it, `*` every name. */
export function matchesName(pattern: string, name: string): boolean {
  if (pattern === '*') return true
  return pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) : name === pattern
}

export const matchesAny = (patterns: readonly string[], name: string): boolean =>
  patterns.some((pattern) => matchesName(pattern, name))
