/** Raw bytes both ways after a sandbox agreed to leave HTTP. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { joinSockets } from '../lib/join-sockets.ts'
import { responseHeaders } from './headers.ts'

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
  joinSockets(client, sandbox)
}
