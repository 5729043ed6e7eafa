/** Raw bytes both ways after a sandbox agreed to leave HTTP. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { responseHeaders } from './headers.ts'

const probeIdleMs = 60_000

export type Tunnel = {
  client: Socket
  sandbox: Socket
  /** The sandbox's 101, and what came with it. */
  incoming: IncomingMessage
  first: Buffer
  ownHost: string | null
}

export function tunnel({ client, sandbox, incoming, first, ownHost }: Tunnel): void {
  const headers = responseHeaders(incoming, ownHost, { chunked: false })
  headers.push('Connection', 'Upgrade', 'Upgrade', incoming.headers.upgrade ?? '')
  let head = `HTTP/1.1 101 ${incoming.statusMessage || 'Switching Protocols'}\r\n`
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
  client.write(`${head}\r\n`, 'latin1')
  if (first.length > 0) sandbox.unshift(first)
  join(client, sandbox)
  join(sandbox, client)
}

/** One direction: an end is handed on as an end, a failure as a reset. */
function join(from: Socket, to: Socket): void {
  from.setNoDelay(true).setKeepAlive(true, probeIdleMs)
  from.on('error', () => {})
  from.pipe(to)
  from.once('close', (failed) => {
    if (failed || !from.readableEnded) resetSocket(to)
    else to.destroySoon()
  })
}

/** The peer sees the connection break, never a clean end in the middle. */
export function resetSocket(socket: Socket): void {
  if (socket.destroyed) return
  // Only a plain TCP socket can send a reset (TLS broken off without its goodbye says the same), and only
  // before its own end: after that Node would leak the handle, and the peer has been told already.
  if ('encrypted' in socket || socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}
