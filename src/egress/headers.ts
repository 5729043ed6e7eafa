/** Which headers cross the gate. Works on raw pairs, so that spelling and order survive. */
import { hopByHop } from '../lib/hop-by-hop.ts'

/** Trailers are not passed on, so neither is the word of them. */
const ofTheConnection = new Set([...hopByHop, 'trailer'])

/** Written by the gate from what it has decided or read. */
const ownedByGate = new Set(['host', 'content-length', 'expect'])

export type HeaderInput = {
  rawHeaders: readonly string[]
  host: string
  /** Of the rule, filled. They replace what the sandbox sent under the same names. */
  set: Readonly<Record<string, string>>
  upgrade: string | null
}

export type RequestHead = { headers: string[]; hasBody: boolean }

export function requestHead({ rawHeaders, host, set, upgrade }: HeaderInput): RequestHead {
  const replaced = new Set(Object.keys(set).map((name) => name.toLowerCase()))
  const headers = ['Host', host]
  let length: string | undefined
  let chunked = false
  for (const [name, value] of endToEnd(rawHeaders)) {
    const lower = name.toLowerCase()
    if (lower === 'content-length') length = value
    if (!ownedByGate.has(lower) && !replaced.has(lower)) headers.push(name, value)
  }
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]!.toLowerCase() === 'transfer-encoding') chunked = true
  }
  for (const [name, value] of Object.entries(set)) {
    // How a message is framed and where it goes is not a rule's to say.
    if (!ofTheConnection.has(name.toLowerCase()) && !ownedByGate.has(name.toLowerCase()))
      headers.push(name, value)
  }
  if (chunked) headers.push('Transfer-Encoding', 'chunked')
  else if (length !== undefined) headers.push('Content-Length', length)
  headers.push('Connection', upgrade === null ? 'keep-alive' : 'Upgrade')
  if (upgrade !== null) headers.push('Upgrade', upgrade)
  return { headers, hasBody: chunked || (length !== undefined && length !== '0') }
}

export function responseHeaders(rawHeaders: readonly string[]): string[] {
  return endToEnd(rawHeaders).flat()
}

function endToEnd(rawHeaders: readonly string[]): [string, string][] {
  const nominated = new Set<string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]!.toLowerCase() !== 'connection') continue
    for (const token of rawHeaders[at + 1]!.split(',')) nominated.add(token.trim().toLowerCase())
  }
  // Naming it there cannot take a message's length away.
  nominated.delete('content-length')
  const pairs: [string, string][] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase()
    if (!ofTheConnection.has(name) && !nominated.has(name)) pairs.push([rawHeaders[at]!, rawHeaders[at + 1]!])
  }
  return pairs
}
