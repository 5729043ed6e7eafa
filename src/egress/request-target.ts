/**
 * Determines the host that a request is for: exactly one, or none, so that no server behind the gate can see
 * another.
 */
import type { IncomingMessage } from 'node:http'
import { readAuthority } from '../lib/host-name.ts'
import { badRequest } from './rejection.ts'

export type RequestTarget = {
  /** Null if the request names an address or no host. */
  name: string | null
  /** The Host header for the destination. */
  host: string
  path: string
}

/** `scheme` is the scheme of the connection. */
export function requestTarget(request: IncomingMessage, scheme: 'http' | 'https'): RequestTarget {
  const hosts = headerValues(request, 'host')
  if (hosts.length > 1) throw badRequest('it has more than one Host header')
  const named = hosts[0] === undefined || hosts[0] === '' ? null : authority(hosts[0])
  const url = request.url ?? ''
  if (url.startsWith('/') || (url === '*' && request.method === 'OPTIONS')) {
    return { name: named?.name ?? null, host: named?.host ?? '', path: url }
  }
  const absolute = /^([a-z]+):\/\/([^/?#]*)(.*)$/is.exec(url)
  if (!absolute || absolute[1]!.toLowerCase() !== scheme) throw badRequest('its target is malformed')
  const wanted = authority(absolute[2]!)
  if (named && named.name !== wanted.name) {
    throw badRequest('its target and its Host header name different hosts')
  }
  const path = absolute[3]!.replace(/#.*/s, '')
  return { ...wanted, path: path.startsWith('/') ? path : `/${path}` }
}

function authority(text: string): { name: string | null; host: string } {
  // Header values arrive as single bytes; a name that is not ASCII is in UTF-8.
  const read = readAuthority(Buffer.from(text, 'latin1').toString())
  if (!read) throw badRequest('the host it names is malformed')
  const name = 'name' in read ? read.name : null
  return { name, host: `${'name' in read ? read.name : read.address}${read.portSuffix}` }
}

function headerValues({ rawHeaders }: IncomingMessage, name: string): string[] {
  return rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]!.toLowerCase() === name)
}
