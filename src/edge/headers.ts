/** Which headers cross the edge, in which direction. Works on raw pairs, so spelling and order survive. */
import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { header } from '../contract/constants.ts'
import { hopByHop } from '../lib/hop-by-hop.ts'

/** Far above honest use, and below the 2000 at which Node starts to drop headers silently. */
const mostHeaders = 500

/** Decided or written by the edge, so never copied from a client. */
const ownedByEdge = new Set([
  'host',
  'content-length',
  'expect',
  'trailer',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  header.trafficToken,
])

/** On a host shared with the API, what a sandbox says about the host's cookies or transport is not its to say. */
const refusedOnSharedHost = new Set([
  'set-cookie',
  'clear-site-data',
  'strict-transport-security',
  'alt-svc',
  'service-worker-allowed',
])

export type ForwardOptions = {
  ownHost: string | null
  /** What the service sees in Host instead of what the client sent. */
  maskHost?: string | undefined
  /** Keep Expect: the client waits for the sandbox's own 100. */
  awaitsContinue: boolean
  upgrade: boolean
}

export type RequestHeaders =
  | { headers: string[]; hasBody: boolean; refusal?: undefined }
  | { refusal: { status: 400 | 431; text: string } }

export function requestHeaders(request: IncomingMessage, options: ForwardOptions): RequestHeaders {
  const raw = request.rawHeaders
  if (raw.length > mostHeaders * 2) return { refusal: { status: 431, text: 'Too many headers' } }
  const nominated = connectionTokens(raw)
  const headers: string[] = []
  let host = ''
  let length: string | undefined
  let coding: string | undefined
  let trailer: string | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const value = raw[i + 1]!
    if (name === 'host') host = value
    else if (name === 'content-length') length = value
    else if (name === 'transfer-encoding') coding = coding === undefined ? value : `${coding},${value}`
    else if (name === 'trailer') trailer = value
    else if (name === 'expect') options.awaitsContinue && headers.push(raw[i]!, value)
    else if (name === 'te') /\btrailers\b/i.test(value) && headers.push('TE', 'trailers')
    else if (name === 'upgrade') options.upgrade && headers.push('Upgrade', value)
    else if (name === 'cookie' && options.ownHost === null) continue
    else if (!hopByHop.has(name) && !ownedByEdge.has(name) && !nominated?.has(name))
      headers.push(raw[i]!, value)
  }
  if (coding !== undefined && (length !== undefined || coding.trim().toLowerCase() !== 'chunked')) {
    return { refusal: { status: 400, text: 'Invalid message framing' } }
  }
  const hasBody = coding !== undefined || (length !== undefined && length !== '0')
  if (hasBody && options.upgrade) return { refusal: { status: 400, text: 'An upgrade cannot carry a body' } }
  if (coding !== undefined) {
    headers.push('Transfer-Encoding', 'chunked')
    if (trailer !== undefined) headers.push('Trailer', trailer)
  } else if (length !== undefined || !bodiless.has(request.method ?? '')) {
    headers.push('Content-Length', length ?? '0')
  }
  if (options.upgrade) headers.push('Connection', 'Upgrade')
  const secure = (request.socket as Partial<TLSSocket>).encrypted === true
  headers.push('Host', options.maskHost ?? host, 'X-Forwarded-For', request.socket.remoteAddress ?? 'unknown')
  headers.push('X-Forwarded-Proto', secure ? 'https' : 'http', 'X-Forwarded-Host', host)
  return { headers, hasBody }
}

/** Methods that carry no body unless they say so. */
const bodiless = new Set(['GET', 'HEAD', 'OPTIONS', 'DELETE', 'TRACE'])

export function responseHeaders(
  incoming: { rawHeaders: string[] },
  ownHost: string | null,
  options: { chunked: boolean },
): string[] {
  const raw = incoming.rawHeaders
  const nominated = connectionTokens(raw)
  const headers: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase()
    const value = raw[i + 1]!
    if (hopByHop.has(name) || (nominated?.has(name) && name !== 'content-length')) continue
    if (name === 'trailer' && !options.chunked) continue
    if (
      ownHost === null ? refusedOnSharedHost.has(name) : name === 'set-cookie' && isForeign(value, ownHost)
    ) {
      continue
    }
    headers.push(raw[i]!, value)
  }
  // A page from a sandbox gets an origin of its own even where it shares the API's host.
  if (ownHost === null) headers.push('Content-Security-Policy', 'sandbox')
  return headers
}

/** Trailers cannot change how the message was framed or routed. */
export function trailerPairs(rawTrailers: string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < rawTrailers.length; i += 2) {
    const name = rawTrailers[i]!.toLowerCase()
    if (hopByHop.has(name) || ownedByEdge.has(name) || name === 'set-cookie') continue
    pairs.push([rawTrailers[i]!, rawTrailers[i + 1]!])
  }
  return pairs
}

/** A cookie meant for more than this one host would reach sibling sandboxes and the API. */
function isForeign(cookie: string, ownHost: string): boolean {
  return cookie.split(';').some((attribute, index) => {
    const [name = '', value = ''] = attribute.split('=', 2)
    if (index === 0 || name.trim().toLowerCase() !== 'domain') return false
    const domain = value.trim().toLowerCase().replace(/^\./, '')
    return domain !== '' && domain !== ownHost
  })
}

/** Headers that Connection names as belonging to this hop; undefined in the usual case of none. */
function connectionTokens(raw: string[]): Set<string> | undefined {
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
