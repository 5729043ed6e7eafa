/** The client address of a request: that of its connection or, if a peer passed the request on, the one that the peer names. */
import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'

type ClientOrigin = { address: string; protocol: 'http' | 'https' }

const origins = new WeakMap<IncomingMessage, ClientOrigin>()

/** Call it for requests of peers only, never with a value that a client sent. */
export function setOrigin(request: IncomingMessage, origin: ClientOrigin): void {
  origins.set(request, origin)
}

export function originOf(request: IncomingMessage): ClientOrigin {
  const known = origins.get(request)
  if (known) return known
  const { socket } = request
  const protocol = (socket as Partial<TLSSocket>).encrypted === true ? 'https' : 'http'
  return { address: socket.remoteAddress ?? 'unknown', protocol }
}
