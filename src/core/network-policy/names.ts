/** Names of hosts as policies write them. */
import { domainToASCII } from 'node:url'

const label = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const name = new RegExp(`^(?:${label}\\.)*${label}$`)
const longest = 253

/**
 * Lower case, in ASCII, without a final dot. Undefined: no name, such as an address in one of its spellings: a name
 * whose last part is a number would be read as an address by some programs.
 */
export function parseHostName(text: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: whatever is not ASCII
  const ascii = /^[\x00-\x7f]*$/.test(text) ? text.toLowerCase() : domainToASCII(text)
  const plain = ascii.replace(/\.$/, '')
  if (plain.length > longest || !name.test(plain)) return undefined
  return /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(plain) ? undefined : plain
}

/** The same, `*.name` for every name below it, or `*` for any. */
export function parseNamePattern(text: string): string | undefined {
  if (text === '*') return text
  if (!text.startsWith('*.')) return parseHostName(text)
  const below = parseHostName(text.slice(2))
  return below && `*.${below}`
}
