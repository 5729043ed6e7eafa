/** Sends requests to a running Warren, also over TLS if its certificate does not name this machine. */
import http, { type ClientRequest, type OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'

export type ServerAddress = {
  url: string
  /** The one certificate to trust when the server uses TLS: the certificate need not name this machine. */
  certificate?: string
}

type ServerRequestOptions = {
  method: string
  headers?: OutgoingHttpHeaders
  /** How long the server may be silent. */
  withinMs: number
  signal?: AbortSignal
}

/** `target` is a path on the server, or a full URL. The caller ends the request and handles its errors. */
export function requestServer(
  { url, certificate }: ServerAddress,
  target: string,
  { withinMs, ...options }: ServerRequestOptions,
): ClientRequest {
  const tls = certificate && {
    ca: certificate,
    allowPartialTrustChain: true,
    checkServerIdentity: () => undefined,
  }
  const to = new URL(target, url)
  const module = to.protocol === 'https:' ? https : http
  const request = module.request(to, { ...options, timeout: withinMs, ...tls })
  request.on('timeout', () => request.destroy(new Error(`no answer within ${withinMs / 1000} s`)))
  return request
}
