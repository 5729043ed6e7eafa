/**
 * Determines the destination of a request from its head alone. Knows no routes and never returns an address:
 * a hostile head can at most name another sandbox ID, and that sandbox guards itself.
 */
import { isIP } from 'node:net'
import { envdPort, header } from '../contract/constants.ts'

type RequestHead = { method?: string | undefined; url?: string | undefined; rawHeaders: string[] }

export type SandboxDestination = {
  kind: 'sandbox'
  sandboxID: string
  port: number
  /** What the host name has after the sandbox's ID; older clients put it there. */
  clientID?: string
  /** In origin form, exactly as the client wrote it. */
  path: string
  /** The host name that belongs to this sandbox port only; null if the host is shared with the API. */
  ownHost: string | null
}

export type Destination =
  | { kind: 'api' }
  | SandboxDestination
  /** A signed file URL on a host that names no sandbox: only the signature identifies the sandbox. */
  | { kind: 'signed-file'; path: string }
  /** A request for an agent that names no sandbox: only its access token identifies the sandbox. */
  | { kind: 'token'; token: string; path: string }
  /** A browser's preflight for the routing headers, which does not contain them. */
  | { kind: 'preflight' }
  | { kind: 'rejected'; reason: string }

const api: Destination = { kind: 'api' }

/**
 * The routing rule. Two Host headers are rejected. A Host whose first label starts with a number and a dash
 * is a sandbox host: it must then be exactly `{port}-{sandboxID}[-{clientID}].{anything}`, and routing
 * headers are ignored. On shared hosts the routing headers apply; without them an access token does.
 * Forwarding headers (X-Forwarded-Host and such) and the authority of an absolute request target never select
 * a sandbox: a target that contradicts Host is rejected.
 */
export function destinationOf(head: RequestHead, domain: string | null): Destination {
  const found = scan(head.rawHeaders)
  if (found.hosts > 1) return rejected('Invalid host')
  const name = hostName(found.host)
  if (isSandboxHost(name, domain)) return fromHost(head, found.host, name)
  if (isSharedHost(name, domain)) {
    if (found.ids > 0 || found.ports > 0) return isForApi(head, found) ? api : fromHeaders(head, found)
    if (head.method === 'OPTIONS' && found.preflight) return { kind: 'preflight' }
    if (found.token !== '') return fromToken(head, found)
  }
  if (isSignedFile(head)) return { kind: 'signed-file', path: head.url ?? '' }
  if (domain !== null && name === `sandbox.${domain}`) return rejected('Invalid host')
  return api
}

/** A domain setting may include a port; host names are compared without it. */
export function domainName(setting: string | null): string | null {
  return setting === null || setting === '' ? null : hostName(setting)
}

type Found = {
  host: string
  hosts: number
  sandboxID: string
  ids: number
  port: string
  ports: number
  /** Empty if there is none, or if it does not have the form of an agent's token. */
  token: string
  preflight: boolean
}

function scan(rawHeaders: string[]): Found {
  const found: Found = {
    host: '',
    hosts: 0,
    sandboxID: '',
    ids: 0,
    port: '',
    ports: 0,
    token: '',
    preflight: false,
  }
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const spelled = rawHeaders[i]!
    // Compares the length first: this runs for every header of every request, including API calls.
    if (spelled.length !== 4 && spelled.length !== 14 && spelled.length !== 16 && spelled.length !== 30)
      continue
    const name = spelled.toLowerCase()
    const value = rawHeaders[i + 1]!
    if (name === 'host') {
      found.host = value
      found.hosts++
    } else if (name === header.sandboxID) {
      found.sandboxID = value
      found.ids++
    } else if (name === header.sandboxPort) {
      found.port = value
      found.ports++
    } else if (name === header.accessToken) {
      if (/^[0-9a-f]{64}$/.test(value)) found.token = value
    } else if (name === 'access-control-request-headers') {
      found.preflight ||= value.toLowerCase().includes(header.sandboxID)
    }
  }
  return found
}

/** In lower case, without port and one trailing dot; an IPv6 address without its brackets. */
function hostName(host: string): string {
  const name = host.toLowerCase().replace(/:\d*$/, '')
  const bracketed = /^\[(.*)\]$/.exec(name)?.[1]
  return bracketed?.includes(':') && isAddress(bracketed) ? bracketed : name.replace(/\.$/, '')
}

function isSandboxHost(name: string, domain: string | null): boolean {
  // A domain may itself begin with a number and a dash (192-168-1-5.example.com).
  return /^\d+-/.test(name) && name !== domain
}

function isSharedHost(name: string, domain: string | null): boolean {
  if (domain === null || domain === 'localhost') return true
  return name === 'localhost' || name === `sandbox.${domain}` || isAddress(name)
}

function fromHost(head: RequestHead, host: string, name: string): Destination {
  if (!/^[a-z0-9_-]+(\.[a-z0-9_-]+)+$/.test(name)) return rejected('Invalid host')
  const [port = '', sandboxID = '', clientID, ...more] = name.slice(0, name.indexOf('.')).split('-')
  if (clientID === undefined) return toSandbox(head, host, sandboxID, port, name)
  if (more.length > 0 || !isID(clientID)) return rejected('Invalid sandbox ID')
  const destination = toSandbox(head, host, sandboxID, port, name)
  return destination.kind === 'sandbox' ? { ...destination, clientID } : destination
}

function fromHeaders(head: RequestHead, found: Found): Destination {
  if (found.ids === 0 || found.ports === 0) return rejected('missing header')
  if (found.ids > 1) return rejected('Invalid sandbox ID')
  if (found.ports > 1) return rejected('Invalid sandbox port')
  const [sandboxID = '', client = 'none', ...more] = found.sandboxID.split('-')
  if (more.length > 0 || !isID(client)) return rejected('Invalid sandbox ID')
  return toSandbox(head, found.host, sandboxID, found.port, null)
}

/**
 * Python's client from 2.7 to 2.26 sends the headers of the agent also with the API's connect. The agent has no
 * such path.
 */
function isForApi({ url = '' }: RequestHead, { port }: Found): boolean {
  return port === String(envdPort) && /^\/(?:v2\/)?sandboxes\/[a-z0-9-]+\/connect$/.test(url)
}

/** JavaScript's client from 2.7 to 2.14.0 names no sandbox in calls for files, Python's to 2.25 in none after a connect. */
function fromToken(head: RequestHead, { host, token }: Found): Destination {
  const path = originForm(head, host)
  return path === null ? rejected('Invalid request target') : { kind: 'token', token, path }
}

function toSandbox(
  head: RequestHead,
  host: string,
  sandboxID: string,
  port: string,
  ownHost: string | null,
): Destination {
  if (!isID(sandboxID)) return rejected('Invalid sandbox ID')
  // One spelling per port: no sign, no leading zero.
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535) return rejected('Invalid sandbox port')
  const path = originForm(head, host)
  if (path === null) return rejected('Invalid request target')
  return { kind: 'sandbox', sandboxID, port: Number(port), path, ownHost }
}

function originForm({ method, url = '' }: RequestHead, host: string): string | null {
  if (url.startsWith('/')) return url
  if (url === '*') return method === 'OPTIONS' ? url : null
  const [, authority, rest = ''] = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url) ?? []
  if (authority === undefined || authority.toLowerCase() !== host.toLowerCase()) return null
  return rest.startsWith('/') ? rest : `/${rest}`
}

const fileMethods = new Set(['GET', 'HEAD', 'POST'])

function isSignedFile({ method = '', url = '' }: RequestHead): boolean {
  return fileMethods.has(method) && url.startsWith('/files?') && /[?&]signature=/.test(url.slice(6))
}

/** Addresses without a zone: a zone has a meaning on the client's machine only. */
function isAddress(text: string): boolean {
  return isIP(text) !== 0 && !text.includes('%')
}

function isID(text: string): boolean {
  return /^[a-z0-9]+$/.test(text)
}

function rejected(reason: string): Destination {
  return { kind: 'rejected', reason }
}
