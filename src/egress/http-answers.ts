/** The gate's own answers to requests, worded for the program in the sandbox. */
import type { Duplex } from 'node:stream'
import { errorText } from '../lib/app-error.ts'
import { headText, MalformedHead } from '../lib/http-relay/headers.ts'
import { type HttpExchange, MalformedAnswer } from '../lib/http-relay/http-relay.ts'
import { resetSocket } from '../lib/join-sockets.ts'
import { badRequest, Rejection, unreachable } from './rejection.ts'

const reasons: Record<number, string> = { 400: 'Bad Request', 403: 'Forbidden', 431: 'Headers Too Large' }

/** Returns the rejection that was sent; null if the client was gone, or if an answer under way was cut. */
export function answerRejection({ request, response }: HttpExchange, error: unknown): Rejection | null {
  if (response.destroyed || request.socket.destroyed) return null
  if (response.headersSent) {
    resetSocket(request.socket)
    return null
  }
  const rejection = rejectionFor(error)
  const body = `${rejection.message}\n`
  response.writeHead(rejection.status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  })
  response.end(request.method === 'HEAD' ? undefined : body)
  request.unpipe()
  request.resume()
  return rejection
}

/** For a connection whose bytes Node's parser rejected. */
export function answerUnreadable(socket: Duplex, { status, message }: Rejection): void {
  const body = `${message}\n`
  const headers = [
    'Content-Type',
    'text/plain; charset=utf-8',
    'Content-Length',
    `${Buffer.byteLength(body)}`,
  ]
  socket.end(`${headText(status, reasons[status] ?? '', [...headers, 'Connection', 'close'])}${body}`)
}

function rejectionFor(error: unknown): Rejection {
  if (error instanceof Rejection) return error
  if (error instanceof MalformedHead) {
    return error.status === 431 ? new Rejection(431, `${error.message}.`) : badRequest(error.message)
  }
  if (error instanceof MalformedAnswer) return unreachable('The host', 'its answer is malformed', error)
  return unreachable('The host', errorText(error), error)
}
