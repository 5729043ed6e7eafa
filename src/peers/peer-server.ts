/** The inner door, which only peers can reach. It serves the same as the public port. */
import type { IncomingMessage, ServerOptions } from 'node:http'
import { createServer, type Server } from 'node:https'
import { takeHop } from './hop.ts'
import type { PeerIdentity } from './peer-identity.ts'

const handshakeTimeoutMs = 10_000

/**
 * The caller attaches the listeners. Connections without a certificate of the peers' authority end in the
 * handshake.
 */
export function createPeerServer(options: ServerOptions, identity: PeerIdentity): Server {
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
  const take = (request: IncomingMessage) => takeHop(request)
  for (const event of ['request', 'checkContinue', 'upgrade']) server.prependListener(event, take)
  return server
}
