/** Which headers of a message cross a proxy, and how the message is framed behind it. Works on raw pairs, so that
 * spelling and order survive. */
import { hopByHop } from './hop-by-hop.ts'

/** Far above honest use, and below the 1000 at which Node's server rejects them without a message, or drops some. */
const maxHeaders = 500

/** Methods that carry no body unless they say so. */
const bodiless = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE', 'TRACE'])

/** A trailer must not change the framing or routing of a message, nor what a client stores for a host. */
const neverTrailers = new Set(['host', 'content-length', 'expect', 'trailer', 'set-cookie'])

/** The head of the forwarded request. */
export type OutgoingHead = { headers: string[]; hasBody: boolean }

/** The message is for the client. */
export class MalformedHead extends Error {
  readonly status: 400 | 431

  constructor(status: 400 | 431, message: string) {
    super(message)
    this.status = status
  }
}

/** Names in lower case. */
export type HeaderNames = Pick<ReadonlySet<string>, 'has'>

type OutgoingHeadOptions = {
  /** Names, Host among them, that the proxy writes itself or keeps to itself. */
  own: HeaderNames
  /** Keep Expect: the client waits for the far side's own 100. */
  awaitsContinue: boolean
  upgrade: boolean
  trailers: boolean
}

/** Throws a `MalformedHead` if two servers could disagree about the end of the message. */
export function outgoingHead(
  { method = '', rawHeaders: raw }: { method?: string | undefined; rawHeaders: readonly string[] },
  options: OutgoingHeadOptions,
): OutgoingHead {
  if (raw.length > maxHeaders * 2)
    throw new MalformedHead(431, `Too many headers: at most ${maxHeaders} are passed on`)
  const nominated = connectionTokens(raw)
  const headers: string[] = []
  let length: string | undefined
  let coding: string | undefined
  let trailer: string | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const value = raw[i + 1]!
    if (name === 'content-length') length = value
    else if (name === 'transfer-encoding') coding = coding === undefined ? value : `${coding},${value}`
    else if (name === 'trailer') trailer = value
    else if (name === 'expect') options.awaitsContinue && headers.push(raw[i]!, value)
    else if (name === 'te') options.trailers && /\btrailers\b/i.test(value) && headers.push('TE', 'trailers')
    else if (name === 'upgrade') options.upgrade && headers.push('Upgrade', value)
    else if (!hopByHop.has(name) && !options.own.has(name) && !nominated?.has(name))
      headers.push(raw[i]!, value)
  }
  if (coding !== undefined && (length !== undefined || coding.trim().toLowerCase() !== 'chunked')) {
    throw new MalformedHead(400, 'Invalid message framing')
  }
  const hasBody = coding !== undefined || (length !== undefined && length !== '0')
  if (hasBody && options.upgrade) throw new MalformedHead(400, 'An upgrade cannot carry a body')
  if (coding !== undefined) {
    headers.push('Transfer-Encoding', 'chunked')
    if (trailer !== undefined && options.trailers) headers.push('Trailer', trailer)
  } else if (length !== undefined || !bodiless.has(method)) {
    headers.push('Content-Length', length ?? '0')
  }
  if (options.upgrade) headers.push('Connection', 'Upgrade')
  return { headers, hasBody }
}

/** The headers of an answer that cross, unless `drops` says otherwise; it gets names in lower case. */
export function answerHeaders(
  raw: readonly string[],
  options: { trailers: boolean; drops?: (name: string, value: string) => boolean },
): string[] {
  const nominated = connectionTokens(raw)
  const headers: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const value = raw[i + 1]!
    // A Connection header that names Content-Length must not remove the length of a message.
    if (hopByHop.has(name) || (nominated?.has(name) && name !== 'content-length')) continue
    if ((name === 'trailer' && !options.trailers) || options.drops?.(name, value)) continue
    headers.push(raw[i]!, value)
  }
  return headers
}

export function trailerPairs(raw: readonly string[], own: HeaderNames): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    if (hopByHop.has(name) || neverTrailers.has(name) || own.has(name)) continue
    pairs.push([raw[i]!, raw[i + 1]!])
  }
  return pairs
}

/** A head in the form in which it goes over the wire. */
export function headText(status: number, reason: string, headers: readonly string[]): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`
  for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
  return `${text}\r\n`
}

/** The first value of a header, whose name is in lower case. Cheaper than Node's object of all headers. */
export function headerValue(raw: readonly string[], name: string): string | undefined {
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length === name.length && raw[i]!.toLowerCase() === name) return raw[i + 1]
  }
  return undefined
}

/** Headers that Connection names as belonging to this hop; undefined in the usual case of none. */
function connectionTokens(raw: readonly string[]): Set<string> | undefined {
  let tokens: Set<string> | undefined
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== 10 || raw[i]!.toLowerCase() !== 'connection') continue
    const value = raw[i + 1]!.toLowerCase()
    if (value === 'keep-alive' || value === 'close') continue
    tokens ??= new Set()
    for (const token of value.split(',')) tokens.add(token.trim())
  }
  return tokens
}
