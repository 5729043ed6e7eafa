/** The SOCKS5 server that a sandbox's connections are to go through. */
import { X509Certificate } from 'node:crypto'
import { addressToNumber } from '../../lib/ipv4.ts'
import type { EgressProxy } from '../ports/egress.ts'
import { invalidNetwork } from './invalid-network.ts'
import { parseHostName } from './name-patterns.ts'
import type { EgressProxyOptions } from './network-options.ts'

/** SOCKS5 stores the length of a name or password in one byte. */
const longestCredential = 255
const longestCertificates = 8192

export function parseProxy({ address, username, password, tls }: EgressProxyOptions): EgressProxy {
  const { host, port } = parseEndpoint(address)
  for (const [field, value] of Object.entries({ username, password })) {
    if (value && Buffer.byteLength(value) > longestCredential) {
      throw invalidNetwork(`egressProxy.${field} may be at most ${longestCredential} bytes long`)
    }
  }
  if (password && !username) throw invalidNetwork('egressProxy.password needs egressProxy.username')
  const parsedTls = parseTls(tls)
  return {
    host,
    port,
    ...(username && { username }),
    ...(password && { password }),
    ...(parsedTls && { tls: parsedTls }),
  }
}

function parseEndpoint(address: string): { host: string; port: number } {
  const match = /^(.+):(\d{1,5})$/.exec(address)
  const [, text = '', digits = ''] = match ?? []
  const host = addressToNumber(text) === undefined ? parseHostName(text) : text
  const port = Number(digits)
  if (host === undefined || port < 1 || port > 65_535) {
    throw invalidNetwork(
      `invalid egress proxy address ${address}: it must be host:port, with a name or an IPv4 address`,
    )
  }
  return { host, port }
}

function parseTls(tls: EgressProxyOptions['tls']): EgressProxy['tls'] {
  if (!tls) return undefined
  const { enabled, serverName, caCert } = tls
  if (!enabled) {
    if (!serverName && !caCert) return undefined
    throw invalidNetwork('egressProxy.tls with enabled: false may have no other field')
  }
  if (serverName && parseHostName(serverName) === undefined && addressToNumber(serverName) === undefined) {
    throw invalidNetwork(`egressProxy.tls.serverName: "${serverName}" is not a server name`)
  }
  if (caCert) checkCertificates(caCert)
  return { ...(serverName && { serverName }), ...(caCert && { caCert }) }
}

function checkCertificates(pem: string): void {
  if (Buffer.byteLength(pem) > longestCertificates) {
    throw invalidNetwork(`egressProxy.tls.caCert may be at most ${longestCertificates} bytes long`)
  }
  try {
    new X509Certificate(pem)
  } catch {
    throw invalidNetwork('egressProxy.tls.caCert must be a certificate in PEM form')
  }
}
