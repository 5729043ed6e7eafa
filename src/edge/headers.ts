/** Which headers the edge writes, keeps to itself, or takes away from what a sandbox says. */
import type { IncomingMessage } from 'node:http'
import { header, hopHeader } from '../contract/constants.ts'
import { isAccessTokenShaped, isAdminTokenShaped, isApiKeyShaped } from '../core/team/team.ts'
import { originOf } from '../lib/client-origin.ts'
import { answerHeaders, headerValue, type OutgoingHead, outgoingHead } from '../lib/http-relay/headers.ts'
import { requestIDHeader } from '../lib/request-id.ts'

/** Decided or written by the edge, so never copied from a client. */
export const ownedByEdge: ReadonlySet<string> = new Set([
  'host',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  header.trafficToken,
])

/** On a host shared with the API the cookies are the API's. */
const ownedOnSharedHost = new Set([...ownedByEdge, 'cookie'])

/** Only nodes say this in answers, to each other. */
const saidByNodes: ReadonlySet<string> = new Set([hopHeader.refusal, hopHeader.made])

/** On a host shared with the API, what a sandbox says about the host's cookies or transport is not its to say. */
const droppedOnSharedHost = new Set([
  'set-cookie',
  'clear-site-data',
  'strict-transport-security',
  'alt-svc',
  'service-worker-allowed',
  ...saidByNodes,
])

export type ForwardOptions = {
  ownHost: string | null
  /** What the service sees in Host instead of what the client sent. */
  maskHost?: string | undefined
  awaitsContinue: boolean
  upgrade: boolean
}

/**
 * Credentials of Warren itself, told by their form: a service has keys of its own under the same names, and gets those.
 * A client that sends its key with every request would otherwise hand it to whatever runs in the sandbox.
 */
const isOwnCredential: Record<string, (value: string) => boolean> = {
  [header.apiKey]: isApiKeyShaped,
  [header.adminToken]: isAdminTokenShaped,
  authorization: (value) => isAccessTokenShaped(value.replace(/^bearer +/i, '')),
}

function withoutOwnCredentials(headers: string[]): string[] {
  return headers.filter((_, at) => {
    const pair = at - (at % 2)
    return !isOwnCredential[headers[pair]!.toLowerCase()]?.(headers[pair + 1]!.trim())
  })
}

/** Throws a `MalformedHead` for a request that two servers could read in two ways. */
export function headForSandbox(request: IncomingMessage, options: ForwardOptions): OutgoingHead {
  const { awaitsContinue, upgrade, ownHost, maskHost } = options
  const own = ownHost === null ? ownedOnSharedHost : ownedByEdge
  const head = outgoingHead(request, { own, awaitsContinue, upgrade, trailers: true })
  const { host = '', authorization, [header.apiKey]: key, [header.adminToken]: admin } = request.headers
  if (authorization ?? key ?? admin) head.headers = withoutOwnCredentials(head.headers)
  const { address, protocol } = originOf(request)
  head.headers.push('Host', maskHost ?? host, 'X-Forwarded-For', address)
  head.headers.push('X-Forwarded-Proto', protocol, 'X-Forwarded-Host', host)
  return head
}

export type AnswerOptions = { ownHost: string | null; keepsTrailers: boolean; requestID: string }

export function headersFromSandbox(
  raw: readonly string[],
  { ownHost, keepsTrailers, requestID }: AnswerOptions,
): string[] {
  const drops =
    ownHost === null
      ? (name: string) => droppedOnSharedHost.has(name)
      : (name: string, value: string) =>
          saidByNodes.has(name) || (name === 'set-cookie' && isForeign(value, ownHost))
  const headers = answerHeaders(raw, { trailers: keepsTrailers, drops })
  // A service that names its requests itself does so for clients of its own.
  if (headerValue(raw, requestIDHeader) === undefined) headers.push('X-Request-Id', requestID)
  // A page from a sandbox gets an origin of its own even where it shares the API's host.
  if (ownHost === null) headers.push('Content-Security-Policy', 'sandbox')
  return headers
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
