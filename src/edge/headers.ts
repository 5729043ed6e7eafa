/** The headers that the edge writes, keeps to itself, or removes from a sandbox's answers. */
import type { IncomingMessage } from 'node:http'
import { clientID, envdPort, header, hopHeader } from '../contract/constants.ts'
import { originOf } from '../lib/client-origin.ts'
import { answerHeaders, headerValue, type OutgoingHead, outgoingHead } from '../lib/http-relay/headers.ts'
import { requestIDHeader } from '../lib/request-id.ts'
import { takesOwnToken } from './access.ts'
import { withoutOwnCredentials } from './own-credentials.ts'

/** Set or checked by the edge, so never copied from a client. */
export const ownedByEdge: ReadonlySet<string> = new Set([
  'host',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  header.trafficToken,
])

/** On a host shared with the API, cookies belong to the API. */
const ownedOnSharedHost = new Set([...ownedByEdge, 'cookie'])

/** Headers that only nodes send each other in answers. */
const saidByNodes: ReadonlySet<string> = new Set([hopHeader.refusal, hopHeader.made])

/** On a host shared with the API, a sandbox must not set cookies or transport rules of the host. */
const droppedOnSharedHost = new Set([
  'set-cookie',
  'clear-site-data',
  'strict-transport-security',
  'alt-svc',
  'service-worker-allowed',
  ...saidByNodes,
])

type ForwardOptions = {
  ownHost: string | null
  port: number
  /** The tokens of the sandbox, which only Warren's own programs in it get from a client. */
  ownTokens?: readonly string[] | undefined
  /** The client ID that stands for the agent's token in host names. */
  hostToken?: string | undefined
  /** The Host that the service sees instead of the client's. */
  maskHost?: string | undefined
  /** The token that the edge shows the agent in the client's place. */
  agentToken?: string | undefined
  awaitsContinue: boolean
  upgrade: boolean
}

/** Throws a `MalformedHead` for a request that two servers could interpret differently. */
export function headForSandbox(request: IncomingMessage, options: ForwardOptions): OutgoingHead {
  const { awaitsContinue, upgrade, ownHost, maskHost, agentToken, port, ownTokens = [] } = options
  const own = ownHost === null ? ownedOnSharedHost : ownedByEdge
  const head = outgoingHead(request, { own, awaitsContinue, upgrade, trailers: true })
  head.headers = withoutOwnCredentials(head.headers, takesOwnToken(port) ? [] : ownTokens)
  const host = hostFor(request, options)
  const { address, protocol } = originOf(request)
  head.headers.push('Host', maskHost ?? host, 'X-Forwarded-For', address)
  head.headers.push('X-Forwarded-Proto', protocol, 'X-Forwarded-Host', host)
  if (agentToken !== undefined) head.headers.push(header.accessToken, agentToken)
  return head
}

/** The client's Host. A service must not learn the client ID that stands for the agent's token. */
function hostFor({ headers: { host = '' } }: IncomingMessage, { port, hostToken }: ForwardOptions): string {
  return hostToken === undefined || port === envdPort ? host : host.replace(`-${hostToken}.`, `-${clientID}.`)
}

type AnswerOptions = { ownHost: string | null; keepsTrailers: boolean; requestID: string }

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
  // A service that numbers its requests does so for its own clients.
  if (headerValue(raw, requestIDHeader) === undefined) headers.push('X-Request-Id', requestID)
  // Gives a page from a sandbox its own origin even on the API's host.
  if (ownHost === null) headers.push('Content-Security-Policy', 'sandbox')
  return headers
}

/** A cookie for more than this one host would reach sibling sandboxes and the API. */
function isForeign(cookie: string, ownHost: string): boolean {
  return cookie.split(';').some((attribute, index) => {
    const [name = '', value = ''] = attribute.split('=', 2)
    if (index === 0 || name.trim().toLowerCase() !== 'domain') return false
    const domain = value.trim().toLowerCase().replace(/^\./, '')
    return domain !== '' && domain !== ownHost
  })
}
