/** Where a request came from: what its connection says, unless a peer that passed the request on told otherwise. */
import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'

export type ClientOrigin = { address: string; protocol: 'http' | 'https' }

const told = new WeakMap<IncomingMessage, ClientOrigin>()

/** For requests of peers alone: nothing that a client sends may come here. */
export function tellOrigin(request: IncomingMessage, origin: ClientOrigin): void {
  told.set(request, origin)
}

export function originOf(request: IncomingMessage): ClientOrigin {
  const known = told.get(request)
  if (known) return known
  const { socket } = request
  const protocol = (socket as Partial<TLSSocket>).encrypted === true ? 'https' : 'http'
  return { address: socket.remoteAddress ?? 'unknown', protocol }
}
