/**
 * Reaches a service that listens on loopback only: the edge requests a port, and after `101` the connection
 * carries that service's bytes in both directions, with backpressure.
 */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { AppError, errorText } from '../lib/app-error.ts'
import { requireToken } from './access.ts'
import { statusOf } from './errors.ts'
import type { Identity } from './identity.ts'

export const relayProtocol = 'warren-relay'

const connectTimeoutMs = 5000

export function openRelay(identity: Identity, request: IncomingMessage, client: Duplex, head: Buffer): void {
  client.on('error', () => client.destroy())
  askedPort(identity, request)
    .then((port) => dial('127.0.0.1', port).catch(() => dial('::1', port)))
    .then(
      (service) => splice(client, service, head),
      (error) => sendRejection(client, error),
    )
}

async function askedPort(identity: Identity, request: IncomingMessage): Promise<number> {
  requireToken(identity, request)
  const [path, query] = (request.url ?? '').split('?', 2)
  if (request.method !== 'GET' || path !== '/relay')
    throw new AppError('not_found', 'only /relay can be upgraded')
  const port = Number(new URLSearchParams(query).get('port'))
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port
  throw new AppError('invalid_argument', 'port must be from 1 to 65535')
}

function dial(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true, timeout: connectTimeoutMs })
    socket.once('error', reject)
    socket.once('timeout', () => socket.destroy(new Error(`nothing answers on port ${port}`)))
    socket.once('connect', () => {
      socket.setTimeout(0)
      socket.off('error', reject)
      resolve(socket)
    })
  })
}

function splice(client: Duplex, service: Socket, head: Buffer): void {
  client.on('error', () => service.destroy())
  service.on('error', () => client.destroy())
  client.on('close', () => finish(service))
  service.on('close', () => finish(client))
  if (client.destroyed) return void service.destroy()
  client.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${relayProtocol}\r\n\r\n`)
  if (head.length > 0) service.write(head)
  client.pipe(service)
  service.pipe(client)
}

/** The other side has disconnected: pending bytes are still delivered, and nothing more is read. */
function finish(side: Duplex): void {
  if (side.writableFinished) side.destroy()
  else side.end(() => side.destroy())
}

/** Our own rejection has its status; a service that cannot be reached is a bad gateway. */
export function sendRejection(client: Duplex, error: unknown): void {
  const status = error instanceof AppError ? statusOf(error) : 502
  const body = JSON.stringify({ code: status, message: errorText(error) })
  client.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => client.destroy(),
  )
}
