/** The inner door, which only peers can reach. It serves the same as the public port. */
import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerOptions, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import type { RequestSource } from '../lib/request-source.ts'
import { refusalText, takeHop } from './hop.ts'
import type { PeerIdentity } from './peer-identity.ts'

const handshakeTimeoutMs = 10_000

export type PeerServer = {
  server: Server
  /** Emits the requests that are to be answered, as the server would. The caller attaches the listeners. */
  requests: RequestSource
  /**
   * Closes the connections without a request. A peer may be sending one at this moment, and would not know whether it was carried
   * out. So it gets an answer first, after which it looks the owner up and sends the request again; here the request is ignored.
   */
  rejectIdle(): void
}

/** Connections without a certificate of the peers' authority end in the handshake. */
export function createPeerServer(options: ServerOptions, identity: PeerIdentity): PeerServer {
  const { authority: ca, certificate: cert, key } = identity
  const server = createServer({
    ...options,
    ca,
    cert,
    key,
    requestCert: true,
    rejectUnauthorized: true,
    handshakeTimeout: handshakeTimeoutMs,
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.3',
  })
  const idle = new Set<Socket>()
  const rejectedIdle = new WeakSet<Socket>()
  server.on('secureConnection', (socket: Socket) => {
    idle.add(socket)
    socket.once('close', () => idle.delete(socket))
  })
  const serve = (request: IncomingMessage, answer: ServerResponse | Socket) => {
    const { socket } = request
    takeHop(request)
    idle.delete(socket)
    if (answer === socket) return
    answer.once('close', () => {
      // After the last answer the server closes the connection itself.
      if (socket.writable) idle.add(socket)
    })
  }
  const requests = new EventEmitter()
  for (const event of ['request', 'checkContinue', 'upgrade'])
    server.on(event, (request: IncomingMessage, answer: ServerResponse | Socket, ...rest: unknown[]) => {
      if (rejectedIdle.has(request.socket)) return
      serve(request, answer)
      requests.emit(event, request, answer, ...rest)
    })
  return {
    server,
    requests,
    rejectIdle() {
      for (const socket of idle) {
        rejectedIdle.add(socket)
        socket.end(refusalText)
      }
      idle.clear()
    },
  }
}
