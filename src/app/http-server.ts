/** The one port: sandbox traffic goes to the edge, everything else to the API. */
import { readFileSync } from 'node:fs'
import http, { type IncomingMessage, type RequestListener, type Server } from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'

/** What the server needs of the edge. */
export type TrafficHandler = {
  claims(request: IncomingMessage): boolean
  handle(request: IncomingMessage, response: http.ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

export type TlsFiles = { cert: string; key: string }

/** Idle clients are let go, slow headers cut off; a body or an answer may take as long as it moves. */
const limits = {
  headersTimeout: 30_000,
  requestTimeout: 0,
  keepAliveTimeout: 65_000,
  maxHeaderSize: 64 * 1024,
}

export function createHttpServer(traffic: TrafficHandler, api: RequestListener, tls?: TlsFiles): Server {
  const onRequest: RequestListener = (request, response) => {
    if (traffic.claims(request)) traffic.handle(request, response)
    else api(request, response)
  }
  const server = tls
    ? https.createServer({ ...limits, cert: readFileSync(tls.cert), key: readFileSync(tls.key) }, onRequest)
    : http.createServer(limits, onRequest)
  server.on('upgrade', (request, socket, head) => {
    if (traffic.claims(request)) return traffic.upgrade(request, socket, head)
    socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
  })
  return server
}
