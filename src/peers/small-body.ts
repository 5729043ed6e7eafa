/** Keeps the body of a small request in memory, so that the request can be sent a second time. */
import type { IncomingMessage } from 'node:http'
import { AppError } from '../lib/app-error.ts'
import { systemClock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'

const maxBytes = 64 * 1024
/**
 * Longer than a client needs to send a short body after its head. A body without a length may be one half of a
 * conversation, whose client waits for an answer before it sends the rest.
 */
const wholeWithinMs = 100

/** `none`: the request has no body. `stream`: the body is long, or not whole in time, and can be sent once only. */
export type ReadBody = Buffer | 'none' | 'stream'

/** Reads the body if it is small. Leaves the body of a stream unread. Rejects if the client disconnects. */
export async function readSmallBody(exchange: HttpExchange): Promise<ReadBody> {
  const { request, awaitsContinue, upgrade } = exchange
  if (upgrade || !hasBody(request)) return 'none'
  const length = request.headers['content-length']
  if (awaitsContinue || Number(length ?? 0) > maxBytes) return 'stream'
  return read(request, length === undefined ? wholeWithinMs : undefined)
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

async function read(request: IncomingMessage, withinMs: number | undefined): Promise<ReadBody> {
  const pieces: Buffer[] = []
  const { promise, resolve, reject } = Promise.withResolvers<ReadBody>()
  // Not an error of this server, which would be logged: any client can disconnect at will.
  const gone = new AppError('invalid_argument', 'The client disconnected before it had sent its request.')
  // Nothing more comes of it, not even the event that it is closed.
  if (request.destroyed) throw gone
  const onReadable = () => {
    for (let piece = request.read() as Buffer | null; piece; piece = request.read()) pieces.push(piece)
    if (sizeOf(pieces) > maxBytes) giveBack()
  }
  const end = () => {
    leave()
    resolve(Buffer.concat(pieces))
  }
  const giveBack = () => {
    leave()
    if (pieces.length > 0) request.unshift(Buffer.concat(pieces))
    // By then the stream has noticed that nobody listens, and flows again for its next reader.
    setImmediate(resolve, 'stream')
  }
  const fail = () => {
    leave()
    reject(gone)
  }
  const cancel = withinMs === undefined ? () => {} : systemClock.after(withinMs, giveBack)
  const leave = () => {
    cancel()
    request.off('readable', onReadable).off('end', end).off('close', fail)
  }
  request.on('readable', onReadable).on('end', end).on('close', fail)
  return promise
}

const sizeOf = (pieces: readonly Buffer[]): number => pieces.reduce((sum, { length }) => sum + length, 0)
